#include "probes/spawn/script.h"

#include <algorithm>
#include <array>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::spawn {
namespace {

constexpr const char* kSource = "syntax tree of the program";

/// What was read at a line of the program.
struct Statement {
  Message line;
  Message call;     ///< what is called there
  Message methods;  ///< under which start methods
  Message path;     ///< of names, or the other place
  Message type;
};

/// What would happen at a line of the program, and what to do.
struct Foreseen {
  StartRefusal cause;
  FindingCode code;
  Message (*message)(const Statement& read);
  const char* remedy;
  const char* example;
};
constexpr std::array kForeseen = {
    Foreseen{StartRefusal::kBootstrapping, FindingCode::kMissingMainGuard,
             [](const Statement& read) {
               return say(
                   "{} starts processes ({}) outside a main guard: {} every worker runs it while "
                   "it imports the main module, and fails",
                   read.line, read.call, read.methods);
             },
             "Move the statement into a function, and call it under a main guard",
             R"(if __name__ == "__main__": main())"},
    Foreseen{StartRefusal::kUnpicklable, FindingCode::kUnpicklableObject,
             [](const Statement& read) {
               return say(
                   "{} sends {} to the workers of {}: its {} cannot be pickled, so it fails {}",
                   read.line, read.path, read.call, read.type, read.methods);
             },
             "Define it at module level; pass what it needs from outside through "
             "functools.partial",
             "functools.partial(of_the_module, argument)"},
    Foreseen{StartRefusal::kDaemonic, FindingCode::kDaemonicProcessHasChildren,
             [](const Statement& read) {
               return say(
                   "{} starts processes ({}) in a dataset, and the DataLoader at {} has workers: "
                   "they are daemonic and must not have children",
                   read.line, read.call, read.path);
             },
             "Use no processes there: the workers already run in parallel", "num_workers=0"},
    Foreseen{StartRefusal::kContextSet, FindingCode::kStartMethodAlreadySet,
             [](const Statement& read) {
               return say(
                   "{} sets the start method outside a main guard: {} every worker runs it while "
                   "it imports the main module, and fails: the method is already set",
                   read.line, read.methods);
             },
             "Set it under the main guard, or use multiprocessing.get_context",
             "multiprocessing.get_context(\"spawn\")"},
};

Message under(const StartEvent& event) {
  if (event.method == "every") return "under every start method";
  if (event.method.empty()) return "under spawn and forkserver";
  return "under " + method_name(event.method) + ", which the program chooses";
}

std::optional<Finding> find(const Run& run, const Foreseen& foreseen) {
  constexpr size_t kMostEvidence = 8;
  std::vector<const StartEvent*> events = events_of(run, StartEventKind::kForeseen);
  std::erase_if(events, [&](const StartEvent* event) { return event->cause != foreseen.cause; });
  if (events.empty()) return std::nullopt;
  const StartEvent& first = *events.front();
  Finding finding = new_finding(foreseen.code, Confidence::kPossible);
  finding.severity = Severity::kWarning;
  finding.discriminator = "text";
  finding.message = foreseen.message({.line = whole_place(first),
                                      .call = as_text(first.message),
                                      .methods = under(first),
                                      .path = as_name(first.path),
                                      .type = as_name(first.type)});
  if (events.size() > 1)
    finding.message += " (the same at " + counted(events.size() - 1, "other place") + ")";
  for (const StartEvent* event : events) {
    if (finding.evidence.size() >= kMostEvidence) break;
    add_source(finding, event->file, event->line, as_text(event->message));
    finding.prove(text_fact("statement", whole_place(*event), kSource));
    finding.prove(text_fact("call", as_text(event->message), kSource));
    if (!event->type.empty()) finding.prove(text_fact("type", as_name(event->type), kSource));
  }
  finding.rule_out("the line never runs",
                   "the program was only parsed: both branches of every if count");
  finding.advise(foreseen.remedy, {foreseen.example}, "dlprobe spawn-recursion -- COMMAND");
  return finding;
}

}  // namespace

std::vector<Finding> findings_of_text(const Run& run) {
  std::vector<Finding> findings;
  for (const Foreseen& foreseen : kForeseen) {
    if (auto finding = find(run, foreseen)) findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace dlprobe::probes::spawn
