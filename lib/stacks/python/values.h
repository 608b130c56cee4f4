#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/error.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/python/objects.h"
#include "lib/stacks/python/runtime.h"
#include "lib/stacks/python/value_layout.h"

namespace dlprobe {

inline constexpr uint64_t kPythonWord = 8;

/// What a class says of its instances.
struct PythonType {
  uint64_t address = 0;
  std::string name;  ///< tp_name: "list", "collections.deque", of a program's class its bare name
  uint64_t flags = 0;
  uint64_t instance_bytes = 0;
  int64_t dict_offset = 0;
  uint64_t dict = 0;
  uint64_t base = 0;

  bool is_dict() const { return has(29); }
  bool is_list() const { return has(25); }
  bool is_tuple() const { return has(26); }
  bool is_text() const { return has(28); }
  bool is_bytes() const { return has(27); }
  bool is_int() const { return has(24); }
  bool is_type() const { return has(31); }
  bool is_exception() const { return has(30); }
  bool is_set() const { return name == "set" || name == "frozenset"; }
  bool is_deque() const { return name == "collections.deque"; }
  bool has(unsigned bit) const { return (flags >> bit & 1U) != 0; }
};

/// Reads the values of a process that runs meanwhile. Trusts nothing: what cannot be such a value
/// is nothing, and a container that changes while it is read gives a part of its items. Refers to
/// both arguments. A build with the GIL only.
class PythonValues {
 public:
  /// A key (0 of a sequence) and its value.
  struct Item {
    uint64_t key = 0;
    uint64_t value = 0;
  };

  PythonValues(const Memory& memory, const PythonRuntime& runtime, const PythonValueLayout& layout)
      : memory_(memory), runtime_(runtime), layout_(layout), objects_(memory, runtime.layout) {}

  /// Null: it is no object.
  const PythonType* type_of(uint64_t object);
  /// The class that is this object; null: it is none.
  const PythonType* type_at(uint64_t address);
  /// How many items a dict, list, tuple, set or deque has.
  std::optional<uint64_t> length(uint64_t object, const PythonType& type) const;
  /// The items of a dict, list or tuple, `most` of them; of a dict the first that were put in.
  std::vector<Item> items(uint64_t object, const PythonType& type, uint64_t most) const;
  /// The last item of a dict, list, tuple or deque.
  std::optional<uint64_t> newest(uint64_t object, const PythonType& type) const;
  /// The attributes of an instance of a class.
  std::vector<Item> attributes(uint64_t object, const PythonType& type, uint64_t most) const;
  /// What a module that the program has imported calls so; 0: nothing.
  uint64_t global(std::string_view module, std::string_view name);
  /// Nothing: it is no int, or none between 0 and 2^30.
  std::optional<int64_t> small_int(uint64_t object);
  /// Nothing: it is no str.
  const std::optional<std::string>& text(uint64_t object);
  const Memory& memory() const { return memory_; }
  /// 0 where it cannot be read.
  uint64_t word(uint64_t address) const { return memory_.value<uint64_t>(address).value_or(0); }

 private:
  std::optional<PythonType> read_type(uint64_t address) const;
  uint64_t item_of(uint64_t dict, std::string_view key);
  std::vector<Item> dict_items(uint64_t dict, uint64_t most) const;
  std::vector<Item> keyed(uint64_t keys, uint64_t values, uint64_t most) const;
  struct Entries {
    uint64_t begin = 0;
    uint64_t count = 0;
    uint64_t bytes = 0;  ///< of one
  };
  Entries entries_of(uint64_t keys) const;

  const Memory& memory_;
  const PythonRuntime& runtime_;
  const PythonValueLayout& layout_;
  PythonObjects objects_;
  std::map<uint64_t, std::optional<PythonType>> types_;
  std::unordered_map<uint64_t, std::optional<std::string>> texts_;
};

}  // namespace dlprobe
