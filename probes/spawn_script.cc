#include "probes/spawn_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/units.h"
#include "probes/facts.h"

namespace dlprobe {
namespace {

using Facts = std::vector<const ScriptFact*>;

constexpr size_t kMostEvidence = 8;
constexpr std::string_view kVerify = "dlprobe spawn-recursion -- COMMAND";

std::string place(const std::string& file, int32_t line) {
  return fmt::format("{}:{}", file, line);
}

std::string place(const ScriptFact& fact) {
  return place(fact.file, fact.line);
}

std::string other_place(const ScriptFact& fact) {
  return place(fact.other_file, fact.other_line);
}

bool has_other_place(const ScriptFact& fact) {
  return !fact.other_file.empty() && (fact.other_line != fact.line || fact.other_file != fact.file);
}

// "main (train.py:30)"; at the module's level the place alone.
std::string function_at(const std::string& function, const std::string& at) {
  const bool is_function = !function.empty() && function.front() != '<';
  return is_function ? fmt::format("{} ({})", function, at) : at;
}

std::string and_others(size_t count) {
  return count < 2 ? "" : fmt::format(" (and {} more like it)", count - 1);
}

/// Where it holds: under fork a worker imports and is sent nothing.
std::string under(const ScriptReading& script, const ScriptFact& fact) {
  if (!fact.method.empty()) return "under " + fact.method + ", which the program chooses";
  if (script.default_method == "forkserver")
    return "under forkserver, the default of Python " + script.python + ", and under spawn";
  return "under spawn and forkserver";
}

std::string tree_of(const ScriptReading& script) {
  return "syntax tree of the program (Python " + script.python + ")";
}

Facts facts_of(const ScriptReading& script, ScriptFactKind kind) {
  Facts facts;
  for (const ScriptFact& fact : script.facts) {
    const bool needs_import = kind != ScriptFactKind::kDaemonicChild &&
                              kind != ScriptFactKind::kCudaAfterFork &&
                              kind != ScriptFactKind::kSetTwice;
    if (fact.kind == kind && !(needs_import && fact.method == "fork")) facts.push_back(&fact);
  }
  return facts;
}

Finding possible(FindingCode code, std::string message) {
  Finding finding = new_finding(code, Confidence::kPossible);
  finding.severity = Severity::kWarning;
  finding.message = std::move(message);
  finding.alternatives.push_back(
      {.cause = "the line is never reached",
       .why_not = "the program was read, not run: both branches of every if were taken"});
  return finding;
}

void add_places(Finding& finding, const ScriptReading& script, const Facts& facts) {
  for (const ScriptFact* fact : facts) {
    if (finding.evidence.size() >= kMostEvidence) return;
    add_source(finding, fact->file, fact->line, fact->what);
    add_source(finding, fact->other_file, fact->other_line, fact->name);
    finding.evidence.push_back(text_fact("statement", place(*fact), tree_of(script)));
    if (has_other_place(*fact)) {
      finding.evidence.push_back(
          text_fact("leads_to", function_at(fact->name, other_place(*fact)), tree_of(script)));
    }
    finding.evidence.push_back(text_fact("call", fact->what, tree_of(script)));
  }
}

Remedy code_remedy(std::string title, std::vector<std::string> lines) {
  return {.title = std::move(title),
          .commands = std::move(lines),
          .applies_to = {"code"},
          .verify = std::string(kVerify)};
}

Remedy guard_remedy(const ScriptFact& fact) {
  return code_remedy(
      fmt::format("Move the statement at {} into a function, and call it under a main guard: "
                  "workers import the module without it",
                  place(fact)),
      {"def main(): ...  # with what now stands there", R"(if __name__ == "__main__": main())"});
}

// ---- DLP0401

void find_missing_guard(const ScriptReading& script, std::vector<Finding>& findings) {
  Facts facts = facts_of(script, ScriptFactKind::kStartsAtImport);
  const Facts unsure = facts_of(script, ScriptFactKind::kMayStartAtImport);
  if (facts.empty() && unsure.empty()) return;
  const bool is_sure = !facts.empty();
  facts.insert(facts.end(), unsure.begin(), unsure.end());
  const ScriptFact& first = *facts.front();
  const std::string through =
      has_other_place(first) ? ", at " + function_at(first.name, other_place(first)) : "";
  Finding finding =
      possible(FindingCode::kMissingMainGuard,
               fmt::format("{} {} processes ({}{}{}) and is not under a main guard{}: {} every "
                           "worker comes to it while it imports the main module, and ends there",
                           place(first), is_sure ? "starts" : "may start", first.what, through,
                           is_sure ? "" : ", with workers if * or ** in its call gives it some",
                           and_others(facts.size()), under(script, first)));
  if (!is_sure) {
    finding.alternatives.push_back(
        {.cause = "the loader has no workers",
         .why_not = "what * or ** hands to it is not in the text: it cannot be excluded"});
  }
  finding.discriminator = "text";
  add_places(finding, script, facts);
  finding.remedies.push_back(guard_remedy(first));
  findings.push_back(std::move(finding));
}

// ---- DLP0402

// "a lambda", "the nested function collate", "an object of type _thread.lock".
std::string describe_sent(const ScriptFact& fact) {
  if (fact.type == "lambda") return "a lambda";
  if (fact.type == "module") return "the module " + fact.name;
  if (fact.type == "generator") return "a generator";
  if (fact.type == "open file") return "an open file";
  if (!fact.name.empty()) return fmt::format("the {} {}", fact.type, fact.name);
  return "an object of type " + fact.type;
}

Remedy picklable_remedy(const ScriptFact& fact) {
  if (fact.type == "lambda" || fact.type == "nested function") {
    return code_remedy(
        "Make it a function of the module's own level; what it needs from around it goes through "
        "functools.partial",
        {"def of_the_module(argument, sample): ...", "functools.partial(of_the_module, argument)"});
  }
  if (fact.type == "local class")
    return code_remedy("Move the class to the module's own level", {});
  if (fact.type == "module")
    return code_remedy("Import the module where it is used, and keep no attribute of it", {});
  return code_remedy(
      fmt::format("Make {} in the worker, when it is first needed, and leave it out of what is "
                  "pickled",
                  fact.path),
      {fmt::format("def __getstate__(self): return {{**self.__dict__, \"{}\": None}}",
                   fact.path.substr(fact.path.rfind('.') + 1))});
}

// All that one place sends is one finding.
void find_unpicklable(const ScriptReading& script, std::vector<Finding>& findings) {
  Facts rest = facts_of(script, ScriptFactKind::kUnpicklable);
  while (!rest.empty()) {
    const ScriptFact& first = *rest.front();
    const auto others = std::ranges::stable_partition(rest, [&](const ScriptFact* fact) {
      return place(*fact) == place(first) && fact->what == first.what;
    });
    const Facts here(rest.begin(), others.begin());
    const std::string made = has_other_place(first) ? " (" + other_place(first) + ")" : "";
    Finding finding = possible(
        FindingCode::kUnpicklableObject,
        fmt::format("{} sends {} to the workers of {}{}: {} is {}{}, which cannot be pickled, as "
                    "it must be {}",
                    place(first), first.path, first.what, and_others(here.size()), first.path,
                    describe_sent(first), made, under(script, first)));
    finding.discriminator = first.path;
    for (const ScriptFact* fact : here) {
      if (finding.evidence.size() >= kMostEvidence) break;
      add_source(finding, fact->file, fact->line, "sends " + fact->path);
      add_source(finding, fact->other_file, fact->other_line, "makes it");
      finding.evidence.push_back(text_fact("sent_at", place(*fact), tree_of(script)));
      finding.evidence.push_back(text_fact("path", fact->path, tree_of(script)));
      finding.evidence.push_back(text_fact("type", describe_sent(*fact), tree_of(script)));
      if (!fact->other_file.empty())
        finding.evidence.push_back(text_fact("made_at", other_place(*fact), tree_of(script)));
    }
    finding.remedies.push_back(picklable_remedy(first));
    findings.push_back(std::move(finding));
    rest.erase(rest.begin(), others.begin());
  }
}

// ---- DLP0403

void find_daemonic(const ScriptReading& script, std::vector<Finding>& findings) {
  const Facts facts = facts_of(script, ScriptFactKind::kDaemonicChild);
  if (facts.empty()) return;
  const ScriptFact& first = *facts.front();
  Finding finding =
      possible(FindingCode::kDaemonicProcessHasChildren,
               fmt::format("{} starts processes ({}) in a daemonic process, which {} starts at {}: "
                           "those must not have children, under any start method{}",
                           function_at(first.function, place(first)), first.what, first.name,
                           other_place(first), and_others(facts.size())));
  finding.discriminator = "text";
  add_places(finding, script, facts);
  finding.remedies.push_back(
      code_remedy("Use num_workers=0 there, or start the outer processes as ones that are not "
                  "daemonic: concurrent.futures.ProcessPoolExecutor's are not, nor is "
                  "Process(..., daemon=False)",
                  {"with concurrent.futures.ProcessPoolExecutor(...) as pool:"}));
  findings.push_back(std::move(finding));
}

// ---- DLP0404

void find_method_set(const ScriptReading& script, std::vector<Finding>& findings) {
  const Facts twice = facts_of(script, ScriptFactKind::kSetTwice);
  if (!twice.empty()) {
    const ScriptFact& first = *twice.front();
    Finding finding =
        possible(FindingCode::kStartMethodAlreadySet,
                 fmt::format("{} sets the start method after {} at {} has fixed it{}", place(first),
                             first.what, other_place(first), and_others(twice.size())));
    finding.discriminator = "twice";
    add_places(finding, script, twice);
    finding.remedies.push_back(code_remedy(
        "Set it once, first thing under the main guard, or ask for a context of that method",
        {fmt::format("context = multiprocessing.get_context(\"{}\")",
                     first.method.empty() ? "spawn" : first.method),
         "DataLoader(..., multiprocessing_context=context)"}));
    findings.push_back(std::move(finding));
  }
  const Facts at_import = facts_of(script, ScriptFactKind::kSetAtImport);
  const bool starts = !facts_of(script, ScriptFactKind::kStarts).empty();
  if (at_import.empty() || !starts) return;
  const ScriptFact& first = *at_import.front();
  Finding finding = possible(
      FindingCode::kStartMethodAlreadySet,
      fmt::format("{} sets the start method and is not under a main guard: {} every worker comes "
                  "to it while it imports the main module, and its method is set already",
                  place(first), under(script, first)));
  finding.discriminator = "at-import";
  add_places(finding, script, at_import);
  finding.remedies.push_back(code_remedy(
      "Set it under the main guard",
      {fmt::format(R"(if __name__ == "__main__": multiprocessing.set_start_method("{}"))",
                   first.method.empty() ? "spawn" : first.method)}));
  findings.push_back(std::move(finding));
}

// ---- DLP0405

void find_cuda(const ScriptReading& script, std::vector<Finding>& findings) {
  const Facts facts = facts_of(script, ScriptFactKind::kCudaAfterFork);
  if (facts.empty()) return;
  const ScriptFact& first = *facts.front();
  Finding finding = possible(
      FindingCode::kCudaInForkedChild,
      fmt::format("{} uses CUDA ({}) in a worker, which is forked after {} has initialised it "
                  "({}){}: CUDA cannot be used in such a process",
                  function_at(first.function, place(first)), first.what, other_place(first),
                  first.name, and_others(facts.size())));
  finding.discriminator = "text";
  add_places(finding, script, facts);
  finding.remedies.push_back(
      code_remedy("Keep samples on the CPU in the worker, and move each batch in the training loop",
                  {"for batch in loader: batch = batch.to(device, non_blocking=True)"}));
  finding.remedies.push_back(code_remedy("Or start the workers by spawn",
                                         {"DataLoader(..., multiprocessing_context=\"spawn\")"}));
  findings.push_back(std::move(finding));
}

// ---- DLP0406, DLP0408: they need workers that import the main module

void find_heavy(const ScriptReading& script, std::vector<Finding>& findings) {
  const Facts facts = facts_of(script, ScriptFactKind::kHeavyAtImport);
  if (facts.empty() || facts_of(script, ScriptFactKind::kStarts).empty()) return;
  const ScriptFact& first = *facts.front();
  const std::string size = first.bytes ? " of " + format_bytes(*first.bytes) : "";
  Finding finding =
      possible(FindingCode::kMainModuleReimported,
               fmt::format("{} loads data{} ({}) and is not under a main guard{}: under spawn and "
                           "forkserver every worker loads it once more, into memory of its own",
                           place(first), size, first.what, and_others(facts.size())));
  finding.discriminator = "text";
  add_places(finding, script, facts);
  if (first.bytes)
    finding.evidence.push_back(bytes_fact("file_size", *first.bytes, "stat of the file"));
  finding.remedies.push_back(guard_remedy(first));
  findings.push_back(std::move(finding));
}

void find_mpi(const ScriptReading& script, std::vector<Finding>& findings) {
  const Facts facts = facts_of(script, ScriptFactKind::kMpiAtImport);
  if (facts.empty() || facts_of(script, ScriptFactKind::kStarts).empty()) return;
  const ScriptFact& first = *facts.front();
  Finding finding = possible(
      FindingCode::kMpiInSpawnedWorker,
      fmt::format(
          "{} imports {}, which initialises MPI, and is not under a main guard: under spawn "
          "and forkserver every worker does so, too, and is no process of the MPI job",
          place(first), first.what));
  finding.discriminator = "text";
  add_places(finding, script, facts);
  finding.remedies.push_back(code_remedy("Import it where the main process alone comes",
                                         {R"(if __name__ == "__main__": from mpi4py import MPI)"}));
  findings.push_back(std::move(finding));
}

// ---- DLP0407

// Why a worker does not find a name of the main module.
std::string why_not_found(const ScriptReading& script) {
  if (script.program == "code") return "the program is given by -c, so there is no file to import";
  if (script.program == "module")
    return "the program is the __main__ of a package, which workers do not import";
  return "the program is a __main__.py that was started through its folder, which workers do not "
         "import";
}

void find_main_not_there(const ScriptReading& script, std::vector<Finding>& findings) {
  const Facts unreadable = facts_of(script, ScriptFactKind::kMainUnreadable);
  if (unreadable.empty()) return;
  Finding finding = possible(
      FindingCode::kMainNotImportable,
      "the program comes from standard input: under spawn and forkserver a worker looks for a file "
      "of the name <stdin>, and ends");
  finding.discriminator = "stdin";
  finding.evidence.push_back(text_fact("program", "standard input", "command line"));
  finding.remedies.push_back(
      code_remedy("Put the program into a file, and start that", {"python train.py"}));
  findings.push_back(std::move(finding));
}

void find_names_not_there(const ScriptReading& script, ScriptFactKind kind,
                          std::vector<Finding>& findings) {
  const Facts facts = facts_of(script, kind);
  if (facts.empty()) return;
  const ScriptFact& first = *facts.front();
  const bool is_guarded = kind == ScriptFactKind::kDefinedUnderGuard;
  const std::string why = is_guarded
                              ? "it is defined under the main guard, which workers do not enter"
                              : why_not_found(script);
  Finding finding = possible(
      FindingCode::kMainNotImportable,
      fmt::format("{} sends the {} {} ({}) to the workers of {} by its name{}, and {} they do not "
                  "find it: {}",
                  place(first), first.type, first.name, other_place(first), first.what,
                  and_others(facts.size()), under(script, first), why));
  finding.discriminator = is_guarded ? "under-guard" : "no-main-module";
  add_places(finding, script, facts);
  finding.remedies.push_back(
      is_guarded
          ? code_remedy(fmt::format("Move the {} {} out of the main guard", first.type, first.name),
                        {})
          : code_remedy(fmt::format("Move the {} {} into a module of its own, and import it",
                                    first.type, first.name),
                        {"from workers import " + first.name}));
  findings.push_back(std::move(finding));
}

// ---- what could not be read

void add_gaps(const ScriptReading& script, Verdict& verdict) {
  if (!script.error.empty()) {
    const std::string where =
        script.error_line > 0 ? place(script.file, script.error_line) : script.file;
    verdict.gaps.push_back(
        {.what = "the program's text",
         .why = fmt::format("{}: {}{}", where, script.is_syntax_error ? "syntax error: " : "",
                            script.error),
         .effect = "nothing can be said of the processes that it starts",
         .remedy = script.is_syntax_error
                       ? "mend it, or use the Python that the program is written for"
                       : ""});
  } else if (!script.complete) {
    verdict.gaps.push_back({.what = "a part of the program's text",
                            .why = script.program == "stdin"
                                       ? "it comes from standard input, which is the program's own"
                                       : "it is too large to be followed to its end",
                            .effect = "what stands in that part was not looked at",
                            .remedy = "dlprobe spawn-recursion -- COMMAND runs it"});
  }
  const Facts unsure = facts_of(script, ScriptFactKind::kMayStart);
  if (!unsure.empty()) {
    verdict.limits.push_back(
        {.what =
             fmt::format("the loader at {}{}", place(*unsure.front()), and_others(unsure.size())),
         .why =
             "whether it has workers is in * or ** of its call, whose content is not in the text",
         .effect = "what it would send to workers was not looked at",
         .remedy = "num_workers=... in the call itself, or dlprobe spawn-recursion -- COMMAND"});
  }
  if (script.files_left_out > 0) {
    verdict.limits.push_back(
        {.what = counted(static_cast<uint64_t>(script.files_left_out), "module") +
                 " of the program's own",
         .why = "they are too many or too large, or cannot be read",
         .effect = "what they do while they are imported was not looked at",
         .remedy = ""});
  }
}

std::vector<Finding> findings_of(const ScriptReading& script) {
  std::vector<Finding> findings;
  find_missing_guard(script, findings);
  find_unpicklable(script, findings);
  find_daemonic(script, findings);
  find_method_set(script, findings);
  find_cuda(script, findings);
  find_main_not_there(script, findings);
  find_names_not_there(script, ScriptFactKind::kNotFoundThere, findings);
  find_names_not_there(script, ScriptFactKind::kDefinedUnderGuard, findings);
  find_mpi(script, findings);
  find_heavy(script, findings);
  return findings;
}

}  // namespace

void find_in_script(const Recording& recording, Verdict& verdict) {
  for (size_t index = 0; index < recording.runs.size(); ++index) {
    const auto& script = recording.runs[index].script;
    if (!script) continue;
    for (Finding& finding : findings_of(*script)) {
      finding.runs = {static_cast<int>(index)};
      merge_finding(verdict.findings, std::move(finding));
    }
    add_gaps(*script, verdict);
  }
}

}  // namespace dlprobe
