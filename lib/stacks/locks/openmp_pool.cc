#include "lib/stacks/locks/openmp_pool.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace dlprobe {
namespace {

constexpr uint32_t kMostThreads = 4096;

/// What omp_get_max_threads() says of libgomp's layout.
struct GompLayout {
  uint64_t thread_slot = 0;  ///< holds the offset of struct gomp_thread from the thread pointer
  uint64_t task = 0;         ///< of gomp_thread::task
  uint64_t icv = 0;          ///< of gomp_task::icv.nthreads_var
  uint64_t global_icv = 0;   ///< where the default lies, for a thread without a task
};

/// Reads along a few instructions of x86_64.
class Code {
 public:
  Code(std::span<const std::byte> bytes, uint64_t address) : bytes_(bytes), address_(address) {}

  /// Passes over the next occurrence of `opcode`.
  bool seek(std::initializer_list<uint8_t> opcode) {
    const auto same = [](std::byte one, uint8_t other) {
      return std::to_integer<uint8_t>(one) == other;
    };
    const auto found = std::search(bytes_.begin() + static_cast<ptrdiff_t>(at_), bytes_.end(),
                                   opcode.begin(), opcode.end(), same);
    if (found == bytes_.end()) return false;
    at_ = static_cast<size_t>(found - bytes_.begin()) + opcode.size();
    return true;
  }

  /// The displacement of a ModRM byte with a base register: 8 or 32 bits.
  std::optional<uint64_t> displacement() {
    constexpr unsigned kModeByte = 1;
    constexpr unsigned kModeWord = 2;
    constexpr unsigned kScaledIndex = 4;
    const auto mod_rm = take<uint8_t>();
    if (!mod_rm || (*mod_rm & 7U) == kScaledIndex) return std::nullopt;
    const unsigned mode = *mod_rm >> 6U;
    if (mode == kModeByte) return take<uint8_t>();
    if (mode == kModeWord) return take<uint32_t>();
    return std::nullopt;
  }

  /// The address that a displacement from the next instruction leads to.
  std::optional<uint64_t> relative() {
    const auto distance = take<int32_t>();
    if (!distance) return std::nullopt;
    return address_ + at_ + static_cast<uint64_t>(static_cast<int64_t>(*distance));
  }

 private:
  template <class T>
  std::optional<T> take() {
    if (bytes_.size() - at_ < sizeof(T)) return std::nullopt;
    T value{};
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  std::span<const std::byte> bytes_;
  uint64_t address_;
  size_t at_ = 0;
};

// mov slot(%rip),%rax; mov %fs:task(%rax),%rdx; test; lea icv(%rdx),%rax; lea global(%rip),%rdx;
// cmove %rdx,%rax; mov (%rax),%eax; ret
std::optional<GompLayout> layout_of(const Memory& memory, uint64_t function) {
  std::array<std::byte, 48> bytes{};
  if (!memory.read(function, bytes)) return std::nullopt;
  Code code(bytes, function);
  if (!code.seek({0x48, 0x8b, 0x05})) return std::nullopt;
  const auto slot = code.relative();
  if (!slot || !code.seek({0x64, 0x48, 0x8b})) return std::nullopt;
  const auto task = code.displacement();
  if (!task || !code.seek({0x48, 0x8d})) return std::nullopt;
  const auto icv = code.displacement();
  if (!icv || !code.seek({0x48, 0x8d, 0x15})) return std::nullopt;
  const auto global = code.relative();
  if (!global) return std::nullopt;
  return GompLayout{.thread_slot = *slot, .task = *task, .icv = *icv, .global_icv = *global};
}

/// struct gomp_thread_pool of libgomp.h.
struct PoolWords {
  uint64_t threads;
  uint32_t threads_size;
  uint32_t threads_used;
};

}  // namespace

std::optional<OpenMpPool> read_openmp_pool(const Memory& memory, uint64_t get_max_threads,
                                           uint64_t thread_pointer) {
  // gomp_thread: ... task, release (an int), thread_pool.
  constexpr uint64_t kPoolAfterTask = 16;
  const auto layout = layout_of(memory, get_max_threads);
  if (!layout) return std::nullopt;
  const auto offset = memory.value<uint64_t>(layout->thread_slot);
  if (!offset) return std::nullopt;
  const uint64_t thread = thread_pointer + *offset;
  const auto task = memory.value<uint64_t>(thread + layout->task);
  const auto pool = memory.value<uint64_t>(thread + layout->task + kPoolAfterTask);
  if (!task || !pool) return std::nullopt;
  const auto next = memory.value<uint32_t>(*task == 0 ? layout->global_icv : *task + layout->icv);
  if (!next || *next == 0 || *next > kMostThreads) return std::nullopt;
  if (*pool == 0) return OpenMpPool{.threads = 0, .next_team = *next};
  const auto words = memory.value<PoolWords>(*pool);
  if (!words || words->threads_used > words->threads_size || words->threads_used > kMostThreads) {
    return std::nullopt;
  }
  // A pool whose thread never led a team has no list yet.
  if (words->threads == 0) return OpenMpPool{.threads = 0, .next_team = *next};
  const auto first = memory.value<uint64_t>(words->threads);
  if (!first || *first != thread) return std::nullopt;
  return OpenMpPool{.threads = words->threads_used, .next_team = *next};
}

}  // namespace dlprobe
