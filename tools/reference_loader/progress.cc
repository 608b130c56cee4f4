#include "tools/reference_loader/progress.h"

#include <poll.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "lib/base/parse.h"

namespace dlprobe::loader {
namespace {

// NOTE [progress protocol]
// One JSON object per line, at most PIPE_BUF bytes of it, so that a pipe takes it whole or not at
// all. "event" names it and "at" is CLOCK_BOOTTIME in nanoseconds; "hello", "batch" and "done" have
// the fields of LoaderHello, LoaderBatch and LoaderDone (lib/model/recording.h), the rest have
// "text"; "start" has those of StartEvent as lib/subject/start_event_line.h reads them. With
// --verify a batch has also "images" (dataset numbers in order) and "checksum".

constexpr size_t kMaxTextBytes = 1024;

std::string to_line(const nlohmann::json& object) {
  // A file name need not be UTF-8.
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

void Progress::hello(const LoaderHello& hello) {
  tell(to_line({{"event", "hello"},
                {"at", hello.at},
                {"device", hello.device},
                {"device_name", hello.device_name},
                {"libtorch", hello.libtorch},
                {"opencv", hello.opencv},
                {"images", hello.images},
                {"batches_per_epoch", hello.batches_per_epoch}}));
}

void Progress::batch(const LoaderBatch& batch, const BatchProof* proof) {
  nlohmann::json line = {
      {"event", "batch"},       {"at", batch.at},         {"epoch", batch.epoch},
      {"index", batch.index},   {"worker", batch.worker}, {"samples", batch.samples},
      {"bytes", batch.bytes},   {"wait_s", batch.wait_s}, {"fetch_s", batch.fetch_s},
      {"copy_s", batch.copy_s}, {"step_s", batch.step_s}};
  if (proof != nullptr) {
    line["images"] = proof->images;
    line["checksum"] = proof->checksum;
  }
  tell(to_line(line));
}

void Progress::done(const LoaderDone& done) {
  tell(to_line({{"event", "done"},
                {"at", done.at},
                {"images", done.images},
                {"seconds", done.seconds},
                {"first_batch_s", done.first_batch_s},
                {"broken_images", done.broken_images}}));
}

void Progress::event(std::string_view name, std::string_view text) {
  tell(to_line({{"event", name}, {"at", boot_now()}, {"text", text.substr(0, kMaxTextBytes)}}));
}

void Progress::start(StartEvent told) {
  told.process = own_process();
  told.at = boot_now();
  nlohmann::json line = {{"event", "start"},
                         {"at", told.at},
                         {"kind", to_string(told.kind)},
                         {"pid", told.process.pid},
                         {"start_ticks", told.process.start_ticks},
                         {"cause", to_string(told.cause)},
                         {"main", told.is_main}};
  const auto put_text = [&line](const char* key, const std::string& text) {
    if (!text.empty()) line[key] = text.substr(0, kMaxTextBytes);
  };
  put_text("method", told.method);
  put_text("message", told.message);
  put_text("path", told.path);
  put_text("type", told.type);
  put_text("file", told.file);
  put_text("function", told.function);
  if (told.line > 0) line["line"] = told.line;
  const auto put = [&line](const char* key, const auto& value) {
    if (value) line[key] = *value;
  };
  put("child", told.child_pid);
  put("seconds", told.seconds);
  put("bytes", told.bytes);
  put("workers", told.workers);
  put("prefetch_factor", told.prefetch_factor);
  write_line(to_line(line));
}

void Progress::tell(const std::string& line) {
  if (tells_ == Tells::kAll) write_line(line);
}

void Progress::write_line(const std::string& line) {
  if (fd_ < 0) return;
  // POLLOUT of a pipe promises room for PIPE_BUF bytes; longer lines (--verify) go piece by piece.
  for (std::string_view rest = line; !rest.empty();) {
    pollfd entry{.fd = fd_, .events = POLLOUT, .revents = 0};
    const int ready = poll(&entry, 1, patience_ms_);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || (entry.revents & (POLLERR | POLLNVAL)) != 0) {
      // A cut line must not run into the next one, so a reader this slow gets no more.
      if (ready < 0 || entry.revents != 0 || rest.size() != line.size()) fd_ = -1;
      patience_ms_ = 0;
      return;
    }
    const ssize_t written = write(fd_, rest.data(), std::min<size_t>(rest.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      fd_ = -1;
      return;
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

ProcessKey own_process() {
  // "42 (dlp-worker) S 41 ...": the name may hold anything, so fields count from its last bracket;
  // the start time is the 22nd, proc(5).
  constexpr size_t kStartTimeAfterName = 19;
  std::ifstream file("/proc/self/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const size_t bracket = text.rfind(')');
  ProcessKey key{.pid = getpid(), .start_ticks = 0};
  if (bracket == std::string::npos) return key;
  const auto fields = split_fields(std::string_view(text).substr(bracket + 1));
  if (fields.size() > kStartTimeAfterName) {
    key.start_ticks = parse_int<uint64_t>(fields[kStartTimeAfterName]).value_or(0);
  }
  return key;
}

BootNs boot_now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return BootNs{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace dlprobe::loader
