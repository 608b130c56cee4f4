#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/session/surroundings.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_files.h"
#include "tests/unit/session/fake_control.h"

namespace dlprobe {

/// Keeps what a session tells.
class ToldNotices final : public Notices {
 public:
  void tell(std::string_view sentence) override { told.emplace_back(sentence); }
  void set_title(std::function<std::string()> title) override { title_ = std::move(title); }
  void show(std::string_view text) override {
    const std::string line = (title_ ? title_() : "") + std::string(text);
    if (shown.empty() || shown.back() != line) shown.push_back(line);
  }
  void log_step(std::string_view line) override { logged.emplace_back(line); }
  void clear_progress() override {}

  std::vector<std::string> told;
  std::vector<std::string> shown;  ///< each with the title that it had then
  std::vector<std::string> logged;

 private:
  std::function<std::string()> title_;
};

/// Answers as a test has it: no cause, nothing stuck, nothing worth a try.
class FakeJudge final : public Judge {
 public:
  Verdict examine(const RecordingView& /*recording*/) const override { return verdict; }
  bool is_stuck(const RecordingView& /*last_run*/) const override { return stuck; }
  std::string what_is_asked(const RecordingView& /*last_run*/) const override { return asked; }
  std::optional<BootNs> in_vain_since(const Run& /*run*/) const override { return in_vain; }
  std::string_view why_watch_longer(const RecordingView& /*last_run*/) const override {
    return rises ? "something rises" : "";
  }
  size_t allowed_processes(const Run& /*run*/) const override { return 16; }
  size_t generations(const Run& /*run*/) const override { return deepest; }
  bool failed_by_itself(const Run& /*run*/) const override { return false; }
  bool wants_control(const RecordingView& /*recording*/) const override { return false; }
  std::string what_won_over(const Run& /*run*/, const Setting& /*setting*/) const override {
    return "";
  }
  bool is_worth_a_try(const Finding& /*finding*/) const override { return true; }
  std::vector<PlannedAttempt> plan_attempts(const Verdict& /*verdict*/) const override {
    return plan;
  }
  bool seems_to_help(const PlannedAttempt& /*planned*/, const Run& /*attempt*/,
                     const Verdict& /*verdict*/, const Recording& /*recording*/) const override {
    return helps;
  }

  Verdict verdict;
  std::vector<PlannedAttempt> plan;
  bool stuck = false;
  std::string asked;
  std::optional<BootNs> in_vain;
  bool rises = false;
  bool helps = true;
  size_t deepest = 1;  ///< row of processes that run the same
};

/// A machine of files in memory and a clock that a test moves.
struct MadeUpPlace {
  std::shared_ptr<FakeFiles> files = std::make_shared<FakeFiles>();
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>(1'000'000'000);
  FakeControl control{*files, *clock};
  FakeJudge judge;
  ToldNotices notices;

  Surroundings surroundings() {
    return {.machine = {.root = files,
                        .clock = clock,
                        .processes = control.access(),
                        .sockets = nullptr,
                        .events = nullptr},
            .control = control,
            .judge = judge,
            .notices = notices,
            .environment = [](std::string_view name) -> std::optional<std::string> {
              // Any program that is there: it is never started.
              if (name == "DLPROBE_REFERENCE_LOADER") return "/bin/sh";
              return std::nullopt;
            },
            .version = "0"};
  }
};

}  // namespace dlprobe
