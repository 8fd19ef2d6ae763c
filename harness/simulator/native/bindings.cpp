// Python bindings of extensions that are compiled with the slim headers
// (compiler/include/slim/harness/bindings.h).
//
// pybind11 and torch's own casters convert, refuse and document arguments and results. So a binding
// behaves like one that was compiled with torch's full headers.
#include "../../compiler/include/slim/harness/functions.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/stl.h>

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace harness_slim {

namespace {

// Room for the largest result, which is a vector.
constexpr size_t most_bytes = 64;

// An argument of a call, of a type that is only known at run time.
struct Argument {
  virtual ~Argument() = default;
  virtual bool load(py::handle from, bool convert) = 0;
  virtual void* value() = 0;
};

template <typename T>
struct ArgumentOf final : Argument {
  bool load(py::handle from, bool convert) override {
    return caster.load(from, convert);
  }
  void* value() override {
    return &py::detail::cast_op<T&>(caster);
  }
  py::detail::make_caster<T> caster;
};

template <typename T>
std::unique_ptr<Argument> argument() {
  return std::make_unique<ArgumentOf<T>>();
}

// Convert a result to Python, and destroy it.
template <typename T>
py::handle give(void* held) {
  T& result = *static_cast<T*>(held);
  const auto given =
      py::detail::make_caster<T>::cast(std::move(result), py::return_value_policy::move, {});
  result.~T();
  return given;
}

// pybind11's name of a type, cut out of the docstring that it writes for a function with that type.
std::string between(const py::cpp_function& function, const char* before, const char* after) {
  const auto doc = function.attr("__doc__").cast<std::string>();
  const auto from = doc.find(before) + std::string(before).size();
  return doc.substr(from, doc.find(after, from) - from);
}

// The conversions and names of one type of arguments or results.
struct Type {
  std::unique_ptr<Argument> (*argument)();
  py::handle (*give)(void*);
  std::string (*argument_name)();
  std::string (*result_name)();
};

template <typename T>
constexpr Type result_of() {
  static_assert(sizeof(T) <= most_bytes);
  return {nullptr, give<T>, nullptr, [] {
            return between(py::cpp_function([]() -> T { return T(); }), "-> ", "\n");
          }};
}

template <typename T>
constexpr Type type_of() {
  Type made = result_of<T>();
  made.argument = argument<T>;
  made.argument_name = [] {
    return between(py::cpp_function([](const T&) {}), "arg0: ", ") ->");
  };
  return made;
}

// The types, in the order of Kind.
const Type types[] = {
    {nullptr, [](void*) { return py::none().release(); }, nullptr, [] { return std::string("None"); }},
    type_of<at::Tensor>(),
    type_of<std::optional<at::Tensor>>(),
    type_of<std::vector<at::Tensor>>(),
    result_of<std::tuple<at::Tensor, at::Tensor>>(),
    result_of<std::tuple<at::Tensor, at::Tensor, at::Tensor>>(),
    type_of<bool>(),
    type_of<int32_t>(),
    type_of<uint32_t>(),
    type_of<int64_t>(),
    type_of<uint64_t>(),
    type_of<float>(),
    type_of<double>(),
    type_of<std::string>(),
    type_of<std::vector<int64_t>>(),
    type_of<std::optional<int64_t>>(),
    type_of<std::optional<double>>(),
};
static_assert(std::size(types) == static_cast<size_t>(Kind::unknown));

const Type& type(Kind kind) {
  return types[static_cast<size_t>(kind)];
}

// A function that is bound, with its own copy of the kinds of its arguments.
struct Bound {
  explicit Bound(const Function& all)
      : function(all), arguments(all.arguments, all.arguments + all.count) {}
  Function function;
  std::vector<Kind> arguments;
};

// Call a function; torch's exceptions become Python's if the function was compiled for that.
void call(const Function& function, void** arguments, void* result) {
  if (!function.has_torchs_errors)
    return function.call(function.function, arguments, result);
  HANDLE_TH_ERRORS
  return function.call(function.function, arguments, result);
  END_HANDLE_TH_ERRORS_PYBIND
}

// Load the arguments of a Python call, call the function, and convert its result.
py::handle dispatch(py::detail::function_call& asked) {
  const Bound& bound = *static_cast<const Bound*>(asked.func.data[0]);
  std::vector<std::unique_ptr<Argument>> arguments;
  std::vector<void*> values;
  for (const Kind kind : bound.arguments) {
    const size_t number = arguments.size();
    arguments.push_back(type(kind).argument());
    if (!arguments.back()->load(asked.args[number], asked.args_convert[number]))
      return PYBIND11_TRY_NEXT_OVERLOAD;
    values.push_back(arguments.back()->value());
  }
  alignas(std::max_align_t) std::byte result[most_bytes];
  call(bound.function, values.data(), result);
  return type(bound.function.result).give(result);
}

// A Python function like py::cpp_function, whose signature is only known at run time.
class Bindings : public py::cpp_function {
 public:
  Bindings(const py::module_& module, const Function& function) {
    auto made = make_function_record();
    auto* record = made.get();
    record->name = const_cast<char*>(function.name);
    record->doc = const_cast<char*>(function.doc);
    record->scope = module;
    const py::object sibling = py::getattr(module, function.name, py::none());
    record->sibling = sibling;
    record->data[0] = new Bound(function);
    record->free_data = [](py::detail::function_record* freed) {
      delete static_cast<Bound*>(freed->data[0]);
    };
    record->impl = dispatch;
    record->nargs_pos = static_cast<uint16_t>(function.count);
    std::string signature = "(";
    for (size_t number = 0; number < function.count; ++number)
      signature += (number ? ", {" : "{") + type(function.arguments[number]).argument_name() + "}";
    signature += ") -> " + type(function.result).result_name();
    const std::type_info* const none[] = {nullptr};
    initialize_generic(std::move(made), signature.c_str(), none, function.count);
  }
};

void define_here(void* module, const Function& function) {
  auto& made = *static_cast<py::module_*>(module);
  made.add_object(function.name, Bindings(made, function), true /* overwrite */);
}

void* make_module_here(const char* name, void (*bind)(void* module)) {
  py::detail::get_internals();
  try {
    auto module = py::module_::create_extension_module(name, nullptr, new PyModuleDef());
    bind(&module);
    return module.ptr();
  }
  PYBIND11_CATCH_INIT_EXCEPTIONS
  return nullptr;
}

__attribute__((constructor)) void be_the_binder() {
  bind_with({define_here, make_module_here});
}

} // namespace

} // namespace harness_slim
