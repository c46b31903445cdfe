// torch's tensors as memory, without torch's headers: through the table of C functions that the class of tensors carries
// (DLPack's exchange protocol, torch 2.10 and newer), or by Python attributes where it has none.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

namespace carousel {

namespace nb = nanobind;

// The layout of DLPack 1, as far as it is used here.
namespace dlpack {

struct Device {
  std::int32_t type, index;
};
struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct Managed;  // a tensor with its owner
struct Exchange {
  std::uint32_t major, minor;
  const Exchange* previous;  // an older version of the table
  int (*allocate)(Tensor* like, Managed** out, void* context, void (*fail)(void* context, const char* kind, const char* text));
  int (*managed_from_python)(void* object, Managed** out);
  int (*managed_to_python)(Managed* tensor, void** object);
  int (*from_python)(void* object, Tensor* out);  // may be null
  int (*stream)(std::int32_t type, std::int32_t index, void** out);
};
constexpr std::int32_t cpu = 1;
constexpr std::uint8_t floating = 2;

}  // namespace dlpack

// A contiguous tensor of floats or doubles on the CPU.
struct View {
  static constexpr int most = 4;  // dimensions
  void* data = nullptr;
  int bits = 0, ndim = 0;
  long shape[most] = {};

  bool has(std::initializer_list<long> sizes) const {
    return ndim == int(sizes.size()) && std::equal(sizes.begin(), sizes.end(), shape);
  }
};

// What Python has of torch. Set once, by ops/backend.py; never released, as tensors may outlive the module.
class Torch {
 public:
  // The classes of plain tensors; the table, or None; torch.empty, and its dtypes; functions that are all false, and a
  // module with a `_current_level` below 0, where a native call may be made.
  static void set(const nb::tuple& classes, nb::handle exchange, nb::handle empty, nb::handle float32, nb::handle float64,
                  const nb::list& modes, nb::handle forward_ad) {
    Torch& torch = shared();
    torch.kinds.clear(), torch.modes.clear();
    for (nb::handle kind : classes) torch.kinds.push_back(reinterpret_cast<PyTypeObject*>(kind.inc_ref().ptr()));
    for (nb::handle mode : modes) torch.modes.push_back(mode.inc_ref().ptr());
    torch.empty = empty.inc_ref().ptr();
    torch.dtype[0] = float32.inc_ref().ptr(), torch.dtype[1] = float64.inc_ref().ptr();
    torch.forward_ad = PyModule_GetDict(forward_ad.inc_ref().ptr());
    torch.exchange = nullptr;
    if (exchange.is_none()) return;
    auto* table = static_cast<const dlpack::Exchange*>(PyCapsule_GetPointer(exchange.ptr(), "dlpack_exchange_api"));
    if (!table) throw nb::python_error();
    while (table && table->major != 1) table = table->previous;
    if (table && table->from_python) torch.exchange = table;
  }

  // Whether nothing is on in this thread that has to see the operations themselves: see unsupported_reason.
  static bool is_plain() {
    const Torch& torch = shared();
    for (PyObject* mode : torch.modes) {
      PyObject* result = PyObject_CallNoArgs(mode);
      if (!result) throw nb::python_error();
      const int on = PyObject_IsTrue(result);
      Py_DECREF(result);
      if (on) return false;
    }
    static PyObject* const name = PyUnicode_InternFromString("_current_level");
    PyObject* level = torch.forward_ad ? PyDict_GetItem(torch.forward_ad, name) : nullptr;
    return level && PyLong_AsLong(level) < 0;
  }

  // What `object` holds; false for all that is no plain, contiguous tensor of floats or doubles on the CPU.
  static bool read(PyObject* object, View& view) {
    const Torch& torch = shared();
    bool plain = false;
    for (PyTypeObject* kind : torch.kinds) plain |= Py_TYPE(object) == kind;
    if (!plain) return false;
    const bool seen = torch.exchange ? torch.by_table(object, view) : torch.by_attributes(object, view);
    if (!seen) {
      PyErr_Clear();
      return false;
    }
    static PyObject* const is_neg = PyUnicode_InternFromString("is_neg");
    return !is_true(object, is_neg);  // a view that negates what the memory holds
  }

  // A new tensor on the CPU, its numbers whatever the memory holds.
  template <class T>
  static nb::object make(std::initializer_list<long> shape, T*& data) {
    const Torch& torch = shared();
    PyObject* object = torch.exchange ? torch.make_by_table(shape, int(8 * sizeof(T)), data)
                                      : torch.make_by_call(shape, torch.dtype[sizeof(T) == 8]);
    if (!object) throw nb::python_error();
    nb::object made = nb::steal(object);
    View view;
    if (!torch.exchange) {
      if (!read(object, view)) throw std::runtime_error("torch.empty gave no plain tensor");
      data = static_cast<T*>(view.data);
    }
    return made;
  }

 private:
  std::vector<PyTypeObject*> kinds;
  std::vector<PyObject*> modes;
  PyObject *empty = nullptr, *dtype[2] = {}, *forward_ad = nullptr;
  const dlpack::Exchange* exchange = nullptr;

  static Torch& shared() {
    static Torch* torch = new Torch;
    return *torch;
  }

  static bool is_true(PyObject* object, PyObject* method) {
    PyObject* result = PyObject_CallMethodNoArgs(object, method);
    const bool yes = result && PyObject_IsTrue(result) == 1;
    Py_XDECREF(result);
    PyErr_Clear();
    return yes;
  }

  bool by_table(PyObject* object, View& view) const {
    dlpack::Tensor t{};
    if (exchange->from_python(object, &t)) return false;
    if (t.device.type != dlpack::cpu || t.dtype.code != dlpack::floating || t.dtype.lanes != 1) return false;
    if ((t.dtype.bits != 32 && t.dtype.bits != 64) || t.ndim > View::most) return false;
    view.data = static_cast<char*>(t.data) + t.byte_offset, view.bits = t.dtype.bits, view.ndim = t.ndim;
    long step = 1;
    bool in_order = true, none = false;
    for (int k = t.ndim - 1; k >= 0; k--) {
      view.shape[k] = long(t.shape[k]);
      none |= t.shape[k] == 0;
      if (t.strides && t.shape[k] != 1) in_order &= t.strides[k] == step;
      step *= long(t.shape[k]);
    }
    return in_order || none;
  }

  bool by_attributes(PyObject* object, View& view) const {
    PyObject* kind = PyObject_GetAttrString(object, "dtype");
    view.bits = kind == dtype[0] ? 32 : kind == dtype[1] ? 64 : 0;
    Py_XDECREF(kind);
    PyObject* on_cpu = PyObject_GetAttrString(object, "is_cpu");
    const bool here = on_cpu == Py_True;
    Py_XDECREF(on_cpu);
    static PyObject* const is_contiguous = PyUnicode_InternFromString("is_contiguous");
    if (!view.bits || !here || !is_true(object, is_contiguous)) return false;
    PyObject* shape = PyObject_GetAttrString(object, "shape");
    if (!shape || PyTuple_GET_SIZE(shape) > View::most) {
      Py_XDECREF(shape);
      return false;
    }
    view.ndim = int(PyTuple_GET_SIZE(shape));
    for (int k = 0; k < view.ndim; k++) view.shape[k] = PyLong_AsLong(PyTuple_GET_ITEM(shape, k));
    Py_DECREF(shape);
    PyObject* address = PyObject_CallMethod(object, "data_ptr", nullptr);
    if (!address) return false;
    view.data = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    return !PyErr_Occurred();
  }

  template <class T>
  PyObject* make_by_table(std::initializer_list<long> sizes, int bits, T*& data) const {
    std::int64_t shape[View::most];
    std::copy(sizes.begin(), sizes.end(), shape);
    dlpack::Tensor like{nullptr, {dlpack::cpu, 0}, std::int32_t(sizes.size()), {dlpack::floating, std::uint8_t(bits), 1},
                        shape, nullptr, 0};
    dlpack::Managed* managed = nullptr;
    auto fail = [](void*, const char*, const char* text) { PyErr_SetString(PyExc_MemoryError, text); };
    void* object = nullptr;
    if (exchange->allocate(&like, &managed, nullptr, fail) || exchange->managed_to_python(managed, &object)) return nullptr;
    dlpack::Tensor made{};
    if (exchange->from_python(object, &made)) {
      Py_DECREF(static_cast<PyObject*>(object));
      return nullptr;
    }
    data = reinterpret_cast<T*>(static_cast<char*>(made.data) + made.byte_offset);
    return static_cast<PyObject*>(object);
  }

  PyObject* make_by_call(std::initializer_list<long> sizes, PyObject* kind) const {
    nb::list shape;
    for (long n : sizes) shape.append(n);
    nb::dict options;
    options["dtype"] = nb::handle(kind), options["device"] = "cpu";
    nb::tuple arguments = nb::make_tuple(shape);
    return PyObject_Call(empty, arguments.ptr(), options.ptr());
  }
};

}  // namespace carousel
