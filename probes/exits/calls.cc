// The calls by which a signal was sent or asked for, as the witness of who called told them.

#include <algorithm>
#include <csignal>
#include <ranges>

#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

// Of a process group or of all the receiver is not named.
bool may_be_to(const StartEvent& call, const Death& death) {
  return call.child_pid && (*call.child_pid == death.process->key.pid || *call.child_pid <= 0);
}

// The places of the timers that end by that signal, the last one first.
std::vector<const StartEvent*> timers_of(const ExitFacts& facts, const Death& death) {
  std::vector<const StartEvent*> timers;
  for (const StartEvent& event : facts.run->start_events | std::views::reverse) {
    if (event.kind == StartEventKind::kSignals && event.seconds && event.count == death.signal &&
        event.process == death.process->key && !event.file.empty())
      timers.push_back(&event);
  }
  return timers;
}

}  // namespace

const StartEvent* call_that_sent(const ExitFacts& facts, const Death& death) {
  const SignalSent* sent = death.sent;
  const BootNs from = death.at() - (sent == nullptr ? kJustBefore : kTogether);
  const StartEvent* last = nullptr;
  for (const StartEvent& event : facts.run->start_events) {
    const bool is_it = event.kind == StartEventKind::kSignals && !event.seconds &&
                       event.count == death.signal && may_be_to(event, death) && event.at >= from &&
                       event.at <= death.at();
    if (is_it && (sent == nullptr || sent->sender_pid == event.process.pid)) last = &event;
  }
  return last;
}

std::optional<ExitCause> timer_cause(const ExitFacts& facts, const Death& death) {
  const auto timers = timers_of(facts, death);
  if (timers.empty() || death.sent != nullptr) return std::nullopt;
  ExitCause cause;
  cause.confidence = Confidence::kLikely;
  cause.clause = say("was killed by {}: a timer of its own ran out, which it had set{}{}",
                     signal_name(death.signal), place_of(*timers.front()),
                     timers.size() > 1 ? ", or elsewhere" : "");
  cause.discriminator = "timer";
  for (const StartEvent* timer : timers)
    cause.prove(text_fact("set_at", whole_place(*timer), kShimSource, timer->at));
  cause.remedies.push_back(
      {.title = say("Cancel the timer at {} as soon as its time is no longer needed, and before "
                    "its handler is taken away",
                    short_place(*timers.front())),
       .commands =
           {death.signal == SIGALRM
                ? "signal.setitimer(signal.ITIMER_REAL, 0)  # in a finally; or signal.alarm(0)"
                : "signal.setitimer(which, 0)  # in a finally"},
       .verify = "dlprobe run -- COMMAND"});
  return cause;
}

}  // namespace dlprobe::probes::exits
