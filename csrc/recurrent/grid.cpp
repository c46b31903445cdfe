// The grid and the table of kernels, compiled once for each instruction set. Each cell has a translation unit of its own.
#include "recurrent/grid.hpp"

#include <map>
#include <stdexcept>

#include "recurrent/stepwise.hpp"

namespace carousel {

namespace {

template <class T>
std::map<std::string, CellKernel<T>>& kernels() {
  static std::map<std::string, CellKernel<T>> table;  // local: made by whichever cell registers first
  return table;
}

}  // namespace

template <class T>
const CellKernel<T>* find_kernel(const std::string& name) {
  const auto found = kernels<T>().find(name);
  return found == kernels<T>().end() ? nullptr : &found->second;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : kernels<float>()) names.push_back(name);
  return names;
}

template <class T>
void add_kernel(const char* name, const CellKernel<T>& kernel) {
  if (!kernels<T>().emplace(name, kernel).second) throw std::logic_error(std::string("two kernels are named ") + name);
}

template <class T>
std::unique_ptr<Stepwise<T>> make_stepwise(const Layer<T>& layer, const CellKernel<T>& cell) {
  return std::make_unique<StepwiseLayer<T>>(layer, cell);
}

#define INSTANTIATE(T)                                                                            \
  template void forward(const Layer<T>&, const CellKernel<T>&);                                   \
  template void backward(const Layer<T>&, const CellKernel<T>&);                                  \
  template std::unique_ptr<Stepwise<T>> make_stepwise(const Layer<T>&, const CellKernel<T>&);     \
  template const CellKernel<T>* find_kernel<T>(const std::string&);                               \
  template void add_kernel(const char*, const CellKernel<T>&);
INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace carousel
