#include "lib/stacks/python/loading.h"

#include <algorithm>
#include <string_view>

#include "lib/stacks/python/values.h"

namespace dlprobe {
namespace {

class Loading {
 public:
  Loading(const Memory& memory, const PythonRuntime& runtime, const PythonValueLayout& layout)
      : values_(memory, runtime, layout), runtime_(runtime), layout_(layout) {}

  // The number that the next one is to have, of itertools.count.
  int64_t processes() {
    constexpr uint64_t kCount = 16;
    constexpr int64_t kMost = 1 << 30;
    const uint64_t counter = values_.global("multiprocessing.process", "_process_counter");
    const PythonType* type = values_.type_of(counter);
    if (type == nullptr || type->name != "itertools.count") return 0;
    const auto next = static_cast<int64_t>(values_.word(counter + kCount));
    return next > 0 && next < kMost ? next - 1 : 0;
  }

  // A loop's iterator lies on the frame's value stack, behind the local variables.
  std::optional<int64_t> batches_in(uint64_t begin, uint64_t end, int levels) {
    constexpr uint64_t kMostBytes = 256 * kPythonWord;
    end = std::min(end, begin + kMostBytes);
    std::optional<int64_t> found;
    for (uint64_t at = begin; at < end && !found; at += kPythonWord)
      found = batches_of(values_.word(at), levels);
    return found;
  }

 private:
  std::optional<int64_t> batches_of(uint64_t object, int levels) {
    constexpr uint64_t kInnerOfEnumerate = 24;
    constexpr uint64_t kWordsOfGenerator = 64;
    const PythonType* type = object == 0 ? nullptr : values_.type_of(object);
    if (type == nullptr) return std::nullopt;
    if (type->name == "_MultiProcessingDataLoaderIter" ||
        type->name == "_SingleProcessDataLoaderIter")
      return batches_of_iterator(object, *type);
    if (levels == 0) return std::nullopt;
    if (type->name == "enumerate")
      return batches_of(values_.word(object + kInnerOfEnumerate), levels - 1);
    if (type->name != "generator") return std::nullopt;
    // Loops of its own: progress bars, wrappers of loaders.
    uint64_t frame = object + runtime_.layout.coroutine.frame;
    if (runtime_.layout.frame.value_stack) frame = values_.word(frame);
    const uint64_t begin = frame + layout_.frame_locals;
    return batches_in(begin, begin + kWordsOfGenerator * kPythonWord, levels - 1);
  }

  std::optional<int64_t> batches_of_iterator(uint64_t object, const PythonType& type) {
    constexpr uint64_t kMostAttributes = 64;
    for (const auto& [name, value] : values_.attributes(object, type, kMostAttributes))
      if (values_.text(name) == "_num_yielded") return values_.small_int(value);
    return std::nullopt;
  }

  PythonValues values_;
  const PythonRuntime& runtime_;
  const PythonValueLayout& layout_;
};

}  // namespace

PythonLoading read_python_loading(const Memory& memory, const PythonRuntime& runtime,
                                  const PythonValueLayout& layout, const PythonThread& thread) {
  constexpr int kMostLevels = 4;
  Loading loading(memory, runtime, layout);
  PythonLoading found{.processes = loading.processes()};
  const size_t frames = std::min(thread.places.size(), thread.value_stacks.size());
  for (size_t i = 0; i < frames && !found.batches; ++i) {
    const uint64_t locals = thread.places[i].frame + layout.frame_locals;
    found.batches = loading.batches_in(locals, thread.value_stacks[i].end, kMostLevels);
  }
  return found;
}

}  // namespace dlprobe
