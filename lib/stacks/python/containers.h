#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "lib/base/error.h"
#include "lib/stacks/python/frames.h"
#include "lib/stacks/python/values.h"

namespace dlprobe {

/// A list, dict, set or deque that a program's own names lead to.
struct PythonContainer {
  uint64_t address = 0;
  uint64_t count = 0;
  size_t node = 0;  ///< for PythonContainers

  bool operator==(const PythonContainer&) const = default;
};

/// Finds the containers of a Python process: from the globals of the program's own modules and the
/// local variables of all frames, by attributes and items, a few steps far. Reads only, while the
/// process runs. Refers to all its arguments.
class PythonContainers {
 public:
  PythonContainers(const Memory& memory, const PythonRuntime& runtime,
                   const PythonValueLayout& layout)
      : runtime_(runtime), layout_(layout), values_(memory, runtime, layout) {}

  /// Of a process with these threads.
  std::vector<PythonContainer> list(std::span<const PythonThread> threads);

  /// How a program calls it: "Trainer.history", "SEEN", "losses['train']".
  std::string name_of(const PythonContainer& container);
  /// "list", "dict", "collections.deque", "functools.lru_cache(maxsize=128)", "itertools.cycle".
  std::string type_of(const PythonContainer& container);
  /// A function of the program that uses that name, at its first line; of a local variable the
  /// frame that has it. Nothing: none is found, or it is a library's.
  std::optional<PythonFrame> user_of(const PythonContainer& container);
  /// How much memory its newest item has, with all that this consists of, at the most. Nothing
  /// where it may have memory that Python does not know.
  std::optional<uint64_t> newest_item_bytes(const PythonContainer& container);

 private:
  /// How one comes to a value.
  enum class Step { kGlobal, kLocal, kAttribute, kItem };
  struct Node {
    uint64_t value = 0;
    size_t parent = 0;  ///< an earlier node; of a global or local its own
    Step step = Step::kGlobal;
    uint64_t key = 0;                    ///< a str, or any other key of a dict
    uint64_t index = 0;                  ///< of an item without a key
    uint64_t holder = 0;                 ///< of a global: the dict of its module
    const PythonFrame* frame = nullptr;  ///< of a local
    int depth = 0;
  };

  void add(Node node);
  void add_modules();
  void add_module(uint64_t dict);
  std::optional<std::string> file_of_module(uint64_t dict);
  void add_frame(const PythonFrame& frame, const PythonFramePlace& place);
  void expand(size_t number);
  void add_kept(size_t number, uint64_t container);
  void expand_container(size_t number, const PythonType& type, uint64_t count);
  void expand_class(size_t parent, const PythonType& type);
  bool is_of_program(const PythonType& type);
  uint64_t cached_results(uint64_t wrapper, const PythonType& type);
  uint64_t wrapped_function(uint64_t wrapper, const PythonType& type);
  std::optional<PythonFrame> user_in(uint64_t dict, const std::string& name, int depth);
  std::optional<PythonFrame> user_in_class(uint64_t address, const std::string& name);
  std::optional<PythonFrame> place_of_function(uint64_t function);
  bool uses(uint64_t function, const std::string& name);
  std::optional<uint64_t> bytes_of(uint64_t object, int levels);

  const PythonRuntime& runtime_;
  const PythonValueLayout& layout_;
  PythonValues values_;
  std::vector<Node> nodes_;
  std::unordered_set<uint64_t> seen_;
  std::set<std::string> modules_;    ///< names of the program's own
  std::set<uint64_t> module_dicts_;  ///< of the same
  std::vector<PythonContainer> found_;
};

}  // namespace dlprobe
