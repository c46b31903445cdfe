// Programs in the Python module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "program/plan.hpp"
#include "program/program.hpp"

namespace carousel {

// Addresses of a call, by what they are of; 0: absent. Their number must be that of the program's tensors or states.
template <class P>
void fill(std::vector<P*>& to, const std::vector<std::uintptr_t>& from, std::size_t count) {
  if (from.size() != count)
    throw std::invalid_argument("program: " + std::to_string(from.size()) + " addresses for " + std::to_string(count));
  for (std::uintptr_t address : from) to.push_back(reinterpret_cast<P*>(address));
}

// sizes: T, B, threads, whether in reverse; lengths, reset; output, saved
template <class T>
ProgramCall<T> make_call(const StepProgram& program, const std::array<long, 4>& sizes,
                         const std::array<std::uintptr_t, 4>& shared, const std::vector<std::uintptr_t>& tensors,
                         const std::vector<std::uintptr_t>& state_0, const std::vector<std::uintptr_t>& initial) {
  ProgramCall<T> call;
  call.steps = sizes[0], call.batch = sizes[1], call.threads = int(sizes[2]), call.reverse = sizes[3];
  call.lengths = reinterpret_cast<const std::int64_t*>(shared[0]);
  call.reset = reinterpret_cast<const std::uint8_t*>(shared[1]);
  call.output = reinterpret_cast<T*>(shared[2]), call.saved = reinterpret_cast<T*>(shared[3]);
  fill(call.tensors, tensors, program.tensors.size());
  fill(call.state_0, state_0, program.states.size());
  fill(call.initial, initial, program.states.size());
  return call;
}

template <class T>
void bind_program_calls(nanobind::module_& module, nanobind::class_<StepProgram>& bound, const std::string& suffix) {
  using Addresses = std::vector<std::uintptr_t>;
  using Sizes = std::array<long, 4>;
  using Shared = std::array<std::uintptr_t, 4>;

  bound.def(("layout" + suffix).c_str(), [](const StepProgram& program) {
    const ProgramLayout l = program_layout<T>(program);
    return std::make_tuple(l.states, l.saved, l.kept, l.saved_row, l.kept_row, l.projected_row);
  });
  // projection: x, weight_ih, bias_ih and the size of x, in the place of the first tensor; memory that keeps W x + b
  using Projection = std::array<std::uintptr_t, 5>;
  static const auto project = [](ProgramCall<T>& call, const Projection& from) {
    call.x = reinterpret_cast<const T*>(from[0]), call.weight_ih = reinterpret_cast<const T*>(from[1]);
    call.bias_ih = reinterpret_cast<const T*>(from[2]), call.input = long(from[3]);
    call.projected = reinterpret_cast<T*>(from[4]);
  };
  module.def(("program_forward" + suffix).c_str(),
             [](const StepProgram& program, const Sizes& sizes, const Shared& shared, const Addresses& tensors,
                const Addresses& state_0, const Addresses& initial, const Addresses& state_n, const Projection& projection) {
               ProgramCall<T> call = make_call<T>(program, sizes, shared, tensors, state_0, initial);
               fill(call.state_n, state_n, program.states.size());
               project(call, projection);
               nanobind::gil_scoped_release release;
               program_forward(program, call);
             });
  // gradients: d_output, kept; d_projection: of x, weight_ih, bias_ih
  module.def(("program_backward" + suffix).c_str(),
             [](const StepProgram& program, const Sizes& sizes, const Shared& shared, const Addresses& tensors,
                const Addresses& state_0, const Addresses& initial, const std::array<std::uintptr_t, 2>& gradients,
                const Addresses& d_state_n, const Addresses& d_tensors, const Addresses& d_state_0, const Addresses& d_initial,
                const Projection& projection, const std::array<std::uintptr_t, 3>& d_projection) {
               if (!program.differentiable) throw std::invalid_argument("program: it has no derivative");
               ProgramCall<T> call = make_call<T>(program, sizes, shared, tensors, state_0, initial);
               call.d_output = reinterpret_cast<const T*>(gradients[0]), call.kept = reinterpret_cast<T*>(gradients[1]);
               fill(call.d_state_n, d_state_n, program.states.size());
               fill(call.d_tensors, d_tensors, program.tensors.size());
               fill(call.d_state_0, d_state_0, program.states.size());
               fill(call.d_initial, d_initial, program.states.size());
               project(call, projection);
               call.d_x = reinterpret_cast<T*>(d_projection[0]), call.d_weight_ih = reinterpret_cast<T*>(d_projection[1]);
               call.d_bias_ih = reinterpret_cast<T*>(d_projection[2]);
               nanobind::gil_scoped_release release;
               program_backward(program, call);
             });
}

inline void bind_programs(nanobind::module_& module) {
  using Widths = std::vector<long>;
  nanobind::class_<StepProgram> bound(module, "Program");
  // tensors: (kind, numbers of a row); numbers of a gate in the first; widths of states, saved planes, kept planes and sums;
  // targets: (sum, tensor, first number); code forwards and back
  bound.def("__init__", [](StepProgram* self, const std::vector<std::array<long, 2>>& tensors, long gate, const Widths& states,
                           const Widths& saved, const Widths& kept, const Widths& sums,
                           const std::vector<std::array<long, 3>>& targets, const EncodedCode& forward, const std::optional<EncodedCode>& backward) {
    new (self) StepProgram(tensors, gate, states, saved, kept, sums, targets, forward, backward ? &*backward : nullptr);
  }, nanobind::arg("tensors"), nanobind::arg("gate"), nanobind::arg("states"), nanobind::arg("saved"), nanobind::arg("kept"), nanobind::arg("sums"), nanobind::arg("targets"),
            nanobind::arg("forward"), nanobind::arg("backward").none());
  bind_program_calls<float>(module, bound, "32");
  bind_program_calls<double>(module, bound, "64");
  module.def("opcodes", &opcode_names);
  nanobind::class_<ProgramPlan>(module, "ProgramPlan")
      .def(nanobind::init<int, const nanobind::list&>())
      .def("step", &ProgramPlan::step, nanobind::arg("own"), nanobind::arg("x").none(), nanobind::arg("state").none(),
           nanobind::arg("threads"))
      .def("sequence", &ProgramPlan::sequence, nanobind::arg("own"), nanobind::arg("x").none(), nanobind::arg("state").none(),
           nanobind::arg("threads"))
      .def("watch", &ProgramPlan::watch, nanobind::arg("own"), nanobind::arg("x").none(), nanobind::arg("state").none(),
           nanobind::arg("threads"), nanobind::arg("saved"), nanobind::arg("holds"))
      .def("fits", &ProgramPlan::fits, nanobind::arg("own"), nanobind::arg("x").none(), nanobind::arg("state").none())
      .def_static("is_plain", &ProgramPlan::is_plain);
}

}  // namespace carousel
