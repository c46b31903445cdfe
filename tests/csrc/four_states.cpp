#include "four_states.hpp"
