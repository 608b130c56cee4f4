#include "lib/stacks/python/values.h"

#include <algorithm>

namespace dlprobe {
namespace {

// PyTypeObject, Include/cpython/object.h.
constexpr uint64_t kTypeBasicSize = 32;
constexpr uint64_t kTypeFlags = 168;
constexpr uint64_t kTypeBase = 256;
constexpr uint64_t kTypeDict = 264;
constexpr uint64_t kTypeDictOffset = 288;
constexpr unsigned kTypeSubclass = 31;  ///< a bit of the flags, of a class of classes
constexpr unsigned kInlineValues = 2;
constexpr unsigned kManagedDict = 4;
// PyVarObject, PyDictObject, PyListObject, PyTupleObject, PySetObject.
constexpr uint64_t kSize = 16;
constexpr uint64_t kDictKeys = 32;
constexpr uint64_t kDictValues = 40;
constexpr uint64_t kListItems = 24;
constexpr uint64_t kTupleItems = 24;
constexpr uint64_t kSetUsed = 24;

}  // namespace

const PythonType* PythonValues::type_of(uint64_t object) {
  if (object == 0 || object % kPythonWord != 0) return nullptr;
  return type_at(word(object + runtime_.layout.object.type));
}

const PythonType* PythonValues::type_at(uint64_t address) {
  if (address == 0 || address % kPythonWord != 0) return nullptr;
  const auto [known, is_new] = types_.try_emplace(address);
  if (is_new) known->second = read_type(address);
  return known->second ? &*known->second : nullptr;
}

std::optional<PythonType> PythonValues::read_type(uint64_t address) const {
  const uint64_t meta = word(address + runtime_.layout.object.type);
  if (meta == 0 || (word(meta + kTypeFlags) >> kTypeSubclass & 1U) == 0) return std::nullopt;
  auto name = python_name_of_type(memory_, runtime_.layout.object, address);
  if (!name) return std::nullopt;
  return PythonType{.address = address,
                    .name = std::move(*name),
                    .flags = word(address + kTypeFlags),
                    .instance_bytes = word(address + kTypeBasicSize),
                    .dict_offset = static_cast<int64_t>(word(address + kTypeDictOffset)),
                    .dict = word(address + kTypeDict),
                    .base = word(address + kTypeBase)};
}

std::optional<uint64_t> PythonValues::length(uint64_t object, const PythonType& type) const {
  constexpr uint64_t kMost = uint64_t{1} << 40U;
  const bool is_sized = type.is_dict() || type.is_list() || type.is_tuple() || type.is_deque();
  if (!is_sized && !type.is_set()) return std::nullopt;
  const auto count = memory_.value<uint64_t>(object + (is_sized ? kSize : kSetUsed));
  return count && *count < kMost ? std::optional(*count) : std::nullopt;
}

std::vector<PythonValues::Item> PythonValues::items(uint64_t object, const PythonType& type,
                                                    uint64_t most) const {
  if (type.is_dict()) return dict_items(object, most);
  if (!type.is_list() && !type.is_tuple()) return {};
  const uint64_t begin = type.is_list() ? word(object + kListItems) : object + kTupleItems;
  const uint64_t count = std::min(length(object, type).value_or(0), most);
  std::vector<Item> items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i)
    items.push_back({.value = word(begin + i * kPythonWord)});
  return items;
}

std::optional<uint64_t> PythonValues::newest(uint64_t object, const PythonType& type) const {
  const uint64_t count = length(object, type).value_or(0);
  if (count == 0) return std::nullopt;
  if (type.is_list()) return word(word(object + kListItems) + (count - 1) * kPythonWord);
  if (type.is_tuple()) return word(object + kTupleItems + (count - 1) * kPythonWord);
  if (type.is_deque()) {
    // dequeobject of Modules/_collectionsmodule.c: the blocks, the index in the last one. A block
    // begins with a link.
    constexpr uint64_t kRightBlock = 32;
    constexpr uint64_t kRightIndex = 48;
    constexpr uint64_t kBlockItems = 64;
    const uint64_t index = word(object + kRightIndex);
    if (index >= kBlockItems) return std::nullopt;
    return word(word(object + kRightBlock) + (index + 1) * kPythonWord);
  }
  if (!type.is_dict() || word(object + kDictValues) != 0) return std::nullopt;
  const Entries entries = entries_of(word(object + kDictKeys));
  if (entries.count == 0) return std::nullopt;
  return word(entries.begin + entries.count * entries.bytes - kPythonWord);
}

PythonValues::Entries PythonValues::entries_of(uint64_t keys) const {
  // struct _dictkeysobject: Objects/dict-common.h, pycore_dict.h.
  constexpr uint64_t kGeneralKeys = 0;
  constexpr uint64_t kMostLog = 40;
  if (layout_.old_keys) {
    const uint64_t size = word(keys + 8);
    uint64_t width = kPythonWord;
    if (size <= UINT32_MAX) width = 4;
    if (size <= UINT16_MAX) width = 2;
    if (size <= UINT8_MAX) width = 1;
    return {.begin = keys + 40 + size * width, .count = word(keys + 32), .bytes = 3 * kPythonWord};
  }
  const uint64_t head = word(keys + 8);
  const uint64_t log_bytes = head >> 8U & 0xffU;
  const bool is_general = (head >> 16U & 0xffU) == kGeneralKeys;
  if (log_bytes > kMostLog) return {};
  return {.begin = keys + 32 + (uint64_t{1} << log_bytes),
          .count = word(keys + 24),
          .bytes = (is_general ? 3 : 2) * kPythonWord};
}

std::vector<PythonValues::Item> PythonValues::keyed(uint64_t keys, uint64_t values,
                                                    uint64_t most) const {
  std::vector<Item> items;
  if (keys == 0) return items;
  const Entries entries = entries_of(keys);
  for (uint64_t i = 0; i < std::min(entries.count, most); ++i) {
    const uint64_t end = entries.begin + (i + 1) * entries.bytes;
    const uint64_t value =
        values == 0 ? end - kPythonWord : values + layout_.values + i * kPythonWord;
    const Item item{.key = word(end - 2 * kPythonWord), .value = word(value)};
    if (item.key != 0 && item.value != 0) items.push_back(item);
  }
  return items;
}

std::vector<PythonValues::Item> PythonValues::dict_items(uint64_t dict, uint64_t most) const {
  return keyed(word(dict + kDictKeys), word(dict + kDictValues), most);
}

std::vector<PythonValues::Item> PythonValues::attributes(uint64_t object, const PythonType& type,
                                                         uint64_t most) const {
  const uint64_t own_keys = word(type.address + layout_.cached_keys);
  if (!type.has(kManagedDict)) {
    if (type.dict_offset <= 0) return {};
    const uint64_t dict = word(object + static_cast<uint64_t>(type.dict_offset));
    return dict == 0 ? std::vector<Item>{} : dict_items(dict, most);
  }
  const uint64_t pointer = word(object - 3 * kPythonWord);
  switch (layout_.attributes) {
    case PythonAttributes::kDict:
      return {};
    case PythonAttributes::kTwoPointers:
      if (const uint64_t values = word(object - 4 * kPythonWord); values != 0)
        return keyed(own_keys, values, most);
      break;
    case PythonAttributes::kTaggedPointer:
      if ((pointer & 1U) != 0) return keyed(own_keys, pointer + 1, most);
      break;
    case PythonAttributes::kInline:
      if (pointer == 0 && type.has(kInlineValues))
        return keyed(own_keys, object + type.instance_bytes, most);
      break;
  }
  return pointer == 0 ? std::vector<Item>{} : dict_items(pointer, most);
}

// The value of a dict with that key, a str; 0: there is none.
uint64_t PythonValues::item_of(uint64_t dict, std::string_view key) {
  constexpr uint64_t kItemsOfModule = 10'000;
  const PythonType* type = type_of(dict);
  if (type == nullptr || !type->is_dict()) return 0;
  for (const auto& [name, value] : items(dict, *type, kItemsOfModule))
    if (text(name) == key) return value;
  return 0;
}

uint64_t PythonValues::global(std::string_view module, std::string_view name) {
  constexpr uint64_t kDictOfModule = 16;  // PyModuleObject.md_dict
  const auto interpreters = list_python_interpreters(memory_, runtime_);
  if (!interpreters) return 0;
  const uint64_t modules = word(interpreters->back() + runtime_.layout.interpreter.modules);
  const uint64_t found = item_of(modules, module);
  return found == 0 ? 0 : item_of(word(found + kDictOfModule), name);
}

std::optional<int64_t> PythonValues::small_int(uint64_t object) {
  // struct _longobject: of its first word 3.12 and later have the count of digits above three bits,
  // of which the lowest says that it is 0.
  const PythonType* type = type_of(object);
  if (type == nullptr || !type->is_int()) return std::nullopt;
  const uint64_t head = word(object + 2 * kPythonWord);
  const bool has_tag = runtime_.version.minor >= 12;
  if (head == (has_tag ? 1U : 0U)) return 0;
  if (head != (has_tag ? 8U : 1U)) return std::nullopt;
  return word(object + 3 * kPythonWord) & UINT32_MAX;
}

const std::optional<std::string>& PythonValues::text(uint64_t object) {
  // Names are interned: the same ones come again and again.
  const auto [known, is_new] = texts_.try_emplace(object);
  if (!is_new) return known->second;
  const PythonType* type = type_of(object);
  if (type == nullptr || !type->is_text()) return known->second;
  if (auto text = objects_.text(object)) known->second = std::move(*text);
  return known->second;
}

}  // namespace dlprobe
