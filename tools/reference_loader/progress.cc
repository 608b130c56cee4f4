#include "tools/reference_loader/progress.h"

#include <poll.h>
#include <unistd.h>

#include <climits>
#include <concepts>

#include <nlohmann/json.hpp>

#include "lib/base/fields.h"
#include "lib/os/clock.h"
#include "lib/proc/pid_stat.h"
#include "tools/reference_loader/ipc.h"

namespace dlprobe::loader {
namespace {

// NOTE [progress protocol]
// One JSON object per line, at most PIPE_BUF bytes of it, so that a pipe takes it whole or not at
// all. "event" names it and "at" is CLOCK_BOOTTIME in nanoseconds; "hello", "batch", "done" and
// "start" have the listed fields of LoaderHello, LoaderBatch, LoaderDone and StartEvent, the rest
// have "text". With --verify a batch has also "images" (dataset numbers in order) and "checksum".

constexpr size_t kMaxTextBytes = 1024;

std::string to_line(const nlohmann::json& object) {
  // A file name need not be UTF-8.
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

template <Listed T>
nlohmann::json object_of(std::string_view event, const T& told) {
  nlohmann::json object = {{"event", event}};
  for_each_field<T>([&]<class V>(const Field<T, V>& field) {
    const V& value = told.*field.member;
    const std::string key(field.key);
    if constexpr (std::same_as<V, ProcessKey>) {
      object["pid"] = value.pid;
      object["start_ticks"] = value.start_ticks;
    } else if constexpr (NamedEnum<V>) {
      object[key] = to_string(value);
    } else if constexpr (std::same_as<V, std::string>) {
      object[key] = value.substr(0, kMaxTextBytes);
    } else if constexpr (requires { value.has_value(); }) {
      if (value) object[key] = *value;
    } else {
      object[key] = value;
    }
  });
  return object;
}

}  // namespace

void Progress::hello(const LoaderHello& hello) {
  tell(to_line(object_of("hello", hello)));
}

void Progress::batch(const LoaderBatch& batch, const BatchProof* proof) {
  nlohmann::json line = object_of("batch", batch);
  if (proof != nullptr) {
    line["images"] = proof->images;
    line["checksum"] = proof->checksum;
  }
  tell(to_line(line));
}

void Progress::done(const LoaderDone& done) {
  tell(to_line(object_of("done", done)));
}

void Progress::event(std::string_view name, std::string_view text) {
  tell(to_line(
      {{"event", name}, {"at", SystemClock().now()}, {"text", text.substr(0, kMaxTextBytes)}}));
}

void Progress::start(StartEvent told) {
  told.process = own_process();
  told.at = SystemClock().now();
  write_line(to_line(object_of("start", told)));
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
  const auto stat = read_proc("self/stat", parse_pid_stat);
  return {.pid = getpid(), .start_ticks = stat ? stat->start_ticks : 0};
}

}  // namespace dlprobe::loader
