#include "tools/reference_loader/start_fault.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "lib/proc/pid_statm.h"
#include "tools/reference_loader/ipc.h"

namespace dlprobe::loader {
namespace {

// It must end by itself where nobody contains it.
constexpr int kMostGenerations = 6;
constexpr size_t kMostStarts = 64;

/// As what a script has loaded at module level.
std::vector<std::byte>& own_memory() {
  static std::vector<std::byte> memory;
  return memory;
}

uint64_t resident_bytes() {
  const uint64_t pages = read_proc("self/statm", parse_pid_statm).value_or(PidStatm()).resident;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void touch_all(std::vector<std::byte>& memory) {
  constexpr size_t kPage = 4096;
  for (size_t i = 0; i < memory.size(); i += kPage)
    memory[i] ^= std::byte{1};
}

}  // namespace

Expected<UniqueFd> make_start_tokens() {
  DLP_TRY(Pipe pipe, make_pipe());
  const std::array<std::byte, kMostStarts> tokens{};
  DLP_CHECK(write_all(pipe.write_end.get(), tokens));
  return std::move(pipe.read_end);
}

Status check_may_start(FaultKind fault, const StartChain& chain, StartMethod method,
                       Progress& progress, std::source_location where) {
  const std::string how(to_string(method));
  if (fault == FaultKind::kRecursiveProcessCreation && chain.generation + 1 >= kMostGenerations) {
    return failure(ErrorCode::kInsufficient, "the fault ends here: this is generation " +
                                                 std::to_string(chain.generation + 1) +
                                                 " of programs that start one another");
  }
  if (fault != FaultKind::kMissingMainGuard || chain.generation == 0) return {};
  const std::string why =
      "a worker started by " + how +
      " runs the program from its beginning and must not start workers of its own";
  progress.start({.kind = StartEventKind::kRefused,
                  .method = how,
                  .cause = StartRefusal::kBootstrapping,
                  .message = why,
                  .file = source_file(where),
                  .line = static_cast<int32_t>(where.line()),
                  .function = where.function_name(),
                  .is_main = true});
  return failure(ErrorCode::kUnsupported, why);
}

Status take_start_token(const StartChain& chain) {
  if (chain.tokens < 0) return {};
  std::byte token{};
  DLP_TRY(const ReadOutcome outcome, read_whole(chain.tokens, std::span(&token, 1)));
  if (outcome == ReadOutcome::kWhole) return {};
  return failure(ErrorCode::kInsufficient,
                 "the fault ends here: " + std::to_string(kMostStarts) + " processes were started");
}

std::string source_file(std::source_location where) {
  constexpr std::string_view kFolder = "tools/reference_loader/";
  const std::string_view file = where.file_name();
  const size_t begin = file.rfind(kFolder);
  return std::string(begin == std::string_view::npos ? file : file.substr(begin));
}

OwnWork do_own_work(const FaultEffects& effects) {
  const auto* fault = effects.as<StartFault>();
  if (fault == nullptr || fault->own_work.count() == 0) return {};
  const uint64_t before = resident_bytes();
  const double start = monotonic_seconds();
  own_memory().assign(fault->own_memory, std::byte{1});
  const auto seconds = static_cast<double>(fault->own_work.count());
  while (monotonic_seconds() - start < seconds)
    touch_all(own_memory());
  const uint64_t after = resident_bytes();
  return {.seconds = monotonic_seconds() - start, .bytes = after - std::min(before, after)};
}

}  // namespace dlprobe::loader
