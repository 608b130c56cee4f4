#include "lib/session/step_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// Of an estimate, more than whole seconds would only flicker.
std::string whole_seconds(BootNs time) {
  const BootNs seconds = std::max<BootNs>((time + kSecond - 1) / kSecond, 1);
  if (seconds < 60) return fmt::format("{} s", seconds);
  return fmt::format("{}", std::string(format_duration(std::chrono::seconds(seconds))));
}

}  // namespace

StepProgress::StepProgress(Notices& notices, const Clock& clock, StepPlan plan)
    : notices_(notices),
      clock_(clock),
      plan_(std::move(plan)),
      began_(clock.now()),
      step_began_(began_),
      logged_at_(began_) {
  notices_.set_title([this] { return begun_ == 0 ? plan_.name : line(); });
}

StepProgress::~StepProgress() {
  notices_.set_title(nullptr);
}

void StepProgress::begin(std::string_view what) {
  step_began_ = clock_.now();
  what_ = what;
  ++begun_;
  notices_.show("");
  if (step_began_ - logged_at_ < plan_.log_every) return;
  logged_at_ = step_began_;
  notices_.log_step(line());
}

std::string StepProgress::line() const {
  const std::string of =
      plan_.steps == 0 ? "" : fmt::format(" of {}{}", plan_.is_most ? "at most " : "", plan_.steps);
  return fmt::format("{}: {} {}{} ({}){}", plan_.name, plan_.noun, begun_, of, what_, time_left());
}

// The step at work takes what the others did, or has already taken longer.
std::string StepProgress::time_left() const {
  const BootNs now = clock_.now();
  std::optional<BootNs> each = plan_.each;
  if (begun_ > 1) each = (step_began_ - began_) / static_cast<BootNs>(begun_ - 1);
  std::optional<BootNs> left;
  if (each && plan_.steps >= begun_) {
    const auto after_this = static_cast<BootNs>(plan_.steps - begun_);
    left = *each * after_this + std::max<BootNs>(*each - (now - step_began_), 0);
  }
  if (plan_.until && *plan_.until > now && (!left || *left > *plan_.until - now))
    return fmt::format(", at most {} left", whole_seconds(*plan_.until - now));
  if (!left || *left == 0) return "";
  return fmt::format(", {} {} left", plan_.is_most ? "at most about" : "about",
                     whole_seconds(*left));
}

}  // namespace dlprobe
