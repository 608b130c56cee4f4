#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/os/kernel_events.h"

namespace dlprobe {

/// A kernel that says what a test has it say.
class FakeEvents : public KernelEvents {
 public:
  /// A record of signal_generate.
  void send(BootNs at, int32_t sender, int32_t target, int32_t signal, int32_t code) {
    TracepointRecord record;
    record.at = at;
    record.pid = record.tid = sender;
    record.fields.resize(12);
    const std::vector<int32_t> values = {signal, code, target};
    std::memcpy(record.fields.data(), values.data(), record.fields.size());
    said_->records.push_back(std::move(record));
  }
  void print(const std::string& message) { said_->lines.push_back("6,1,2,-;" + message + "\n"); }
  void lose(uint64_t records) { said_->lost += records; }
  void forbid() { forbidden_ = true; }

  Expected<std::string> tracepoint_format(const std::string& /*name*/) const override {
    if (forbidden_) return os_failure("fsopen tracefs", EPERM);
    return "ID: 7\n\tfield:int sig;\toffset:0;\tsize:4;\n\tfield:int code;\toffset:4;\tsize:4;\n"
           "\tfield:pid_t pid;\toffset:8;\tsize:4;\n";
  }
  Expected<std::unique_ptr<Tracepoint>> open_tracepoint(
      uint64_t /*id*/, const std::string& /*filter*/) const override {
    return std::make_unique<SaidSignals>(said_);
  }
  Expected<std::unique_ptr<KernelLog>> follow_log() const override {
    if (forbidden_) return os_failure("open /dev/kmsg", EPERM);
    return std::make_unique<SaidLines>(said_);
  }

 private:
  struct Said {
    std::vector<TracepointRecord> records;
    std::vector<std::string> lines;
    uint64_t lost = 0;
  };
  class SaidSignals : public Tracepoint {
   public:
    explicit SaidSignals(std::shared_ptr<Said> said) : said_(std::move(said)) {}
    std::vector<TracepointRecord> take() override { return std::exchange(said_->records, {}); }
    uint64_t take_lost() override { return std::exchange(said_->lost, 0); }
    std::vector<int> descriptors() const override { return {}; }

   private:
    std::shared_ptr<Said> said_;
  };
  class SaidLines : public KernelLog {
   public:
    explicit SaidLines(std::shared_ptr<Said> said) : said_(std::move(said)) {}
    std::vector<std::string> take() override { return std::exchange(said_->lines, {}); }

   private:
    std::shared_ptr<Said> said_;
  };

  std::shared_ptr<Said> said_ = std::make_shared<Said>();
  bool forbidden_ = false;
};

}  // namespace dlprobe
