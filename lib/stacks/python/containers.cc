#include "lib/stacks/python/containers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "lib/foreign/python_code.h"

namespace dlprobe {
namespace {

constexpr size_t kMostNodes = 20'000;
constexpr int kMostSteps = 5;
constexpr uint64_t kMostModules = 10'000;
constexpr uint64_t kMostNames = 512;   ///< of a module, a class, an instance
constexpr uint64_t kMostItems = 64;    ///< of a container that is gone into
constexpr uint64_t kModuleDict = 16;   ///< PyModuleObject.md_dict
constexpr uint64_t kCellContent = 16;  ///< PyCellObject.ob_ref
constexpr uint64_t kMethodSelf = 24;   ///< PyMethodObject.im_self
constexpr uint64_t kDequeMaxLength = 64;
constexpr uint64_t kCacheMaxSize = 96;
constexpr uint64_t kCycleSaved = 24;  ///< cycleobject.saved, of Modules/itertoolsmodule.c
constexpr const char* kLruCache = "functools._lru_cache_wrapper";
constexpr const char* kCycle = "itertools.cycle";

bool is_name_of_program(const std::string& name) {
  return name == "__main__" || name == "__mp_main__";
}

bool is_dunder(const std::string& name) {
  return name.starts_with("__") && name.ends_with("__");
}

}  // namespace

void PythonContainers::add(Node node) {
  if (nodes_.size() >= kMostNodes || node.value == 0 || node.depth > kMostSteps) return;
  if (!seen_.insert(node.value).second) return;
  nodes_.push_back(node);
}

std::vector<PythonContainer> PythonContainers::list(std::span<const PythonThread> threads) {
  add_modules();
  for (const PythonThread& thread : threads) {
    for (size_t i = 0; i < thread.frames.size() && i < thread.places.size(); ++i)
      add_frame(thread.frames[i], thread.places[i]);
  }
  for (size_t i = 0; i < nodes_.size(); ++i)
    expand(i);
  return std::move(found_);
}

void PythonContainers::add_modules() {
  const auto interpreters = list_python_interpreters(values_.memory(), runtime_);
  if (!interpreters) return;
  const uint64_t dict = values_.word(interpreters->back() + runtime_.layout.interpreter.modules);
  const PythonType* type = values_.type_of(dict);
  if (type == nullptr) return;
  std::set<std::string, std::less<>> libraries;  // packages, whose own modules are no other's
  for (const auto& [key, module] : values_.items(dict, *type, kMostModules)) {
    const std::string name = values_.text(key).value_or("");
    const auto dot = name.find('.');
    if (dot != std::string::npos && libraries.contains(std::string_view(name).substr(0, dot)))
      continue;
    const PythonType* of_module = values_.type_of(module);
    if (of_module == nullptr || of_module->name != "module") continue;
    const uint64_t names = values_.word(module + kModuleDict);
    const auto file = file_of_module(names);
    if (file && is_of_a_library(*file)) libraries.insert(name);
    if (file ? is_of_a_library(*file) : !is_name_of_program(name)) continue;
    modules_.insert(name);
    add_module(names);
  }
}

// importlib sets it before the module itself runs.
std::optional<std::string> PythonContainers::file_of_module(uint64_t dict) {
  constexpr uint64_t kFirst = 10;
  const PythonType* type = values_.type_of(dict);
  if (type == nullptr) return std::nullopt;
  for (const auto& [key, value] : values_.items(dict, *type, kFirst)) {
    if (values_.text(key) == "__file__") return values_.text(value);
  }
  return std::nullopt;
}

void PythonContainers::add_module(uint64_t dict) {
  const PythonType* type = values_.type_of(dict);
  if (type == nullptr || !module_dicts_.insert(dict).second) return;
  for (const auto& [key, value] : values_.items(dict, *type, kMostNames)) {
    if (is_dunder(values_.text(key).value_or("__"))) continue;
    add({.value = value, .parent = nodes_.size(), .key = key, .holder = dict});
  }
}

void PythonContainers::add_frame(const PythonFrame& frame, const PythonFramePlace& place) {
  if (frame.file.starts_with('<')) return;  // of importlib
  if (!is_of_a_library(frame.file)) add_module(values_.word(place.frame + layout_.frame_globals));
  // Up to 3.10 they are local variables, those of inner functions, and those of outer ones.
  std::vector<uint64_t> names = {layout_.locals_names};
  if (layout_.old_keys) names = {layout_.locals_names, 88, 80};
  uint64_t at = place.frame + layout_.frame_locals;
  for (const uint64_t offset : names) {
    const uint64_t tuple = values_.word(place.code + offset);
    const PythonType* type = values_.type_of(tuple);
    if (type == nullptr || !type->is_tuple()) return;
    for (const auto& [none, name] : values_.items(tuple, *type, kMostNames)) {
      add({.value = values_.word(at),
           .parent = nodes_.size(),
           .step = Step::kLocal,
           .key = name,
           .frame = &frame});
      at += kPythonWord;
    }
  }
}

void PythonContainers::expand(size_t number) {
  const Node node = nodes_[number];
  const PythonType* type = values_.type_of(node.value);
  if (type == nullptr || type->is_text() || type->is_bytes() || type->is_int()) return;
  if (type->name == "cell" || type->name == "method") {
    Node inner = node;
    inner.value = values_.word(node.value + (type->name == "cell" ? kCellContent : kMethodSelf));
    add(inner);
  } else if (type->name == kLruCache) {
    add_kept(number, cached_results(node.value, *type));
  } else if (type->name == kCycle) {
    add_kept(number, values_.word(node.value + kCycleSaved));
  } else if (type->is_type()) {
    if (node.step == Step::kGlobal) {
      const PythonType* of_instances = values_.type_at(node.value);
      if (of_instances != nullptr) expand_class(number, *of_instances);
    }
  } else if (const auto count = values_.length(node.value, *type)) {
    expand_container(number, *type, *count);
  } else if (type->name != "function" && type->name != "module") {
    for (const auto& [key, value] : values_.attributes(node.value, *type, kMostNames))
      add({.value = value,
           .parent = number,
           .step = Step::kAttribute,
           .key = key,
           .depth = node.depth + 1});
    expand_class(number, *type);
  }
}

void PythonContainers::expand_container(size_t number, const PythonType& type, uint64_t count) {
  const Node node = nodes_[number];
  if (!type.is_tuple()) found_.push_back({.address = node.value, .count = count, .node = number});
  if (count > kMostItems) return;
  uint64_t index = 0;
  for (const auto& [key, value] : values_.items(node.value, type, kMostItems))
    add({.value = value,
         .parent = number,
         .step = Step::kItem,
         .key = key,
         .index = index++,
         .depth = node.depth + 1});
}

void PythonContainers::add_kept(size_t number, uint64_t container) {
  const PythonType* type = values_.type_of(container);
  const auto count = type == nullptr ? std::nullopt : values_.length(container, *type);
  if (count) found_.push_back({.address = container, .count = *count, .node = number});
}

// What all instances share.
void PythonContainers::expand_class(size_t parent, const PythonType& type) {
  if (!is_of_program(type) || !seen_.insert(type.dict).second) return;
  const PythonType* of_dict = values_.type_of(type.dict);
  if (of_dict == nullptr) return;
  for (const auto& [key, value] : values_.items(type.dict, *of_dict, kMostNames)) {
    // But __getitem__ may have a cache around it.
    const PythonType* of_value = values_.type_of(value);
    const bool is_cache = of_value != nullptr && of_value->name == kLruCache;
    if (!is_cache && is_dunder(values_.text(key).value_or("__"))) continue;
    add({.value = value,
         .parent = parent,
         .step = Step::kAttribute,
         .key = key,
         .depth = nodes_[parent].depth + 1});
  }
}

bool PythonContainers::is_of_program(const PythonType& type) {
  constexpr uint64_t kFirst = 4;
  const PythonType* of_dict = values_.type_of(type.dict);
  if (of_dict == nullptr || !of_dict->is_dict()) return false;
  for (const auto& [key, value] : values_.items(type.dict, *of_dict, kFirst)) {
    if (values_.text(key) == "__module__")
      return modules_.contains(values_.text(value).value_or(""));
  }
  return false;
}

// lru_cache_object of Modules/_functoolsmodule.c has the dict of its results beside its own.
uint64_t PythonContainers::cached_results(uint64_t wrapper, const PythonType& type) {
  constexpr uint64_t kMostFields = 32;
  const auto own = static_cast<uint64_t>(std::max<int64_t>(type.dict_offset, 0));
  const uint64_t words = std::min(type.instance_bytes / kPythonWord, kMostFields);
  for (uint64_t i = 2; i < words; ++i) {
    if (i * kPythonWord == own) continue;
    const uint64_t value = values_.word(wrapper + i * kPythonWord);
    const PythonType* of_value = values_.type_of(value);
    if (of_value != nullptr && of_value->is_dict()) return value;
  }
  return 0;
}

std::string PythonContainers::name_of(const PythonContainer& container) {
  constexpr size_t kLongest = 200;
  std::string behind;
  for (size_t number = container.node; behind.size() < kLongest;) {
    const Node& node = nodes_[number];
    const std::string key = values_.text(node.key).value_or("");
    if (node.step == Step::kItem) {
      const bool has_name = !key.empty() && key.size() <= 40;
      const std::string at = node.key == 0 ? std::to_string(node.index) : "...";
      behind.insert(0, has_name ? fmt::format("['{}']", key) : fmt::format("[{}]", at));
      number = node.parent;
      continue;
    }
    if (node.step != Step::kAttribute) return key + behind;
    const PythonType* type = values_.type_of(nodes_[node.parent].value);
    if (type != nullptr && type->is_type()) type = values_.type_at(nodes_[node.parent].value);
    return type == nullptr ? key + behind : fmt::format("{}.{}{}", type->name, key, behind);
  }
  return behind;
}

std::string PythonContainers::type_of(const PythonContainer& container) {
  const uint64_t object = nodes_[container.node].value;
  const PythonType* type = values_.type_of(object);
  if (type == nullptr) return "";
  // dequeobject of Modules/_collectionsmodule.c, lru_cache_object of _functoolsmodule.c; -1: none.
  const auto with_bound = [&](const std::string& name, const char* word, uint64_t offset) {
    const auto most = static_cast<int64_t>(values_.word(object + offset));
    return most > 0 ? fmt::format("{}({}={})", name, word, most) : name;
  };
  if (type->name == kLruCache) return with_bound("functools.lru_cache", "maxsize", kCacheMaxSize);
  return type->is_deque() ? with_bound(type->name, "maxlen", kDequeMaxLength) : type->name;
}

std::optional<PythonFrame> PythonContainers::user_of(const PythonContainer& container) {
  const Node* node = &nodes_[container.node];
  while (node->step == Step::kItem)
    node = &nodes_[node->parent];
  const PythonType* type = values_.type_of(node->value);
  // The function itself is what calls it.
  if (type != nullptr && type->name == kLruCache)
    return place_of_function(wrapped_function(node->value, *type));
  if (node->step == Step::kLocal) {
    if (is_of_a_library(node->frame->file)) return std::nullopt;
    return *node->frame;
  }
  const std::string name = values_.text(node->key).value_or("");
  if (node->step == Step::kGlobal) return user_in(node->holder, name, 1);
  const PythonType* owner = values_.type_of(nodes_[node->parent].value);
  if (owner != nullptr && owner->is_type()) owner = values_.type_at(nodes_[node->parent].value);
  for (int i = 0; owner != nullptr && i < kMostSteps; ++i) {
    if (auto user = user_in(owner->dict, name, 0)) return user;
    owner = values_.type_at(owner->base);
  }
  return std::nullopt;
}

uint64_t PythonContainers::wrapped_function(uint64_t wrapper, const PythonType& type) {
  for (const auto& [key, value] : values_.attributes(wrapper, type, kMostItems))
    if (values_.text(key) == "__wrapped__") return value;
  return 0;
}

// Whoever only makes it (__init__) comes last. Of a module its classes' functions, too.
std::optional<PythonFrame> PythonContainers::user_in(uint64_t dict, const std::string& name,
                                                     int depth) {
  const PythonType* of_dict = values_.type_of(dict);
  if (of_dict == nullptr || name.empty()) return std::nullopt;
  std::optional<PythonFrame> maker;
  for (const auto& [key, value] : values_.items(dict, *of_dict, kMostNames)) {
    const PythonType* type = values_.type_of(value);
    if (type == nullptr) continue;
    if (type->is_type() && depth > 0) {
      if (auto user = user_in_class(value, name)) return user;
    }
    if (type->name != "function" || !uses(value, name)) continue;
    auto place = place_of_function(value);
    if (!place || is_of_a_library(place->file)) continue;
    if (values_.text(key) != "__init__") return place;
    maker = std::move(place);
  }
  return maker;
}

std::optional<PythonFrame> PythonContainers::user_in_class(uint64_t address,
                                                           const std::string& name) {
  const PythonType* type = values_.type_at(address);
  if (type == nullptr || !is_of_program(*type)) return std::nullopt;
  return user_in(type->dict, name, 0);
}

bool PythonContainers::uses(uint64_t function, const std::string& name) {
  const uint64_t names =
      values_.word(values_.word(function + layout_.function_code) + layout_.code_names);
  const PythonType* type = values_.type_of(names);
  if (type == nullptr || !type->is_tuple()) return false;
  return std::ranges::any_of(values_.items(names, *type, kMostNames),
                             [&](const auto& item) { return values_.text(item.value) == name; });
}

std::optional<PythonFrame> PythonContainers::place_of_function(uint64_t function) {
  const PythonType* type = values_.type_of(function);
  if (type == nullptr || type->name != "function") return std::nullopt;
  const PythonLayout::Code& at = runtime_.layout.code;
  const uint64_t code = values_.word(function + layout_.function_code);
  const auto file = values_.text(values_.word(code + at.file));
  const auto name = values_.text(values_.word(code + at.qualified_name.value_or(at.name)));
  if (!file || !name) return std::nullopt;
  const auto line = static_cast<int32_t>(values_.word(code + at.first_line) & UINT32_MAX);
  return PythonFrame{.file = *file, .function = *name, .line = line};
}

std::optional<uint64_t> PythonContainers::newest_item_bytes(const PythonContainer& container) {
  const PythonType* type = values_.type_of(container.address);
  const auto item = type == nullptr ? std::nullopt : values_.newest(container.address, *type);
  constexpr int kMostLevels = 4;
  return item ? bytes_of(*item, kMostLevels) : std::nullopt;
}

// Upper bounds, with what an allocator adds.
std::optional<uint64_t> PythonContainers::bytes_of(uint64_t object, int levels) {
  constexpr uint64_t kHead = 80;
  constexpr uint64_t kEntry = 100;  ///< of a dict or set: its place, with room to grow
  constexpr uint64_t kSampled = 8;
  const PythonType* type = values_.type_of(object);
  if (type == nullptr || levels == 0) return std::nullopt;
  if (type->name == "NoneType" || type->name == "bool") return 0;
  if (type->name == "float" || type->is_int()) return 40;
  if (type->is_text()) return kHead + 4 * values_.word(object + kPythonWord * 2);
  if (type->is_bytes()) return kHead + values_.word(object + kPythonWord * 2);
  const auto count = values_.length(object, *type);
  const bool is_plain = type->name == "list" || type->name == "tuple" || type->name == "dict";
  if (!count || !is_plain) return std::nullopt;
  const auto items = values_.items(object, *type, kSampled);
  uint64_t of_items = 0;
  for (const auto& [key, value] : items) {
    const auto bytes = bytes_of(value, levels - 1);
    const auto of_key = key == 0 ? std::optional<uint64_t>(0) : bytes_of(key, levels - 1);
    if (!bytes || !of_key) return std::nullopt;
    of_items += *bytes + *of_key;
  }
  const uint64_t place = type->is_dict() ? kEntry : kPythonWord * 2;
  if (items.empty()) return kHead;
  return kHead + *count * (place + of_items / items.size());
}

}  // namespace dlprobe
