#include "probes/gate/python.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/foreign/libraries.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::gate {
namespace {

constexpr const char* kFound = "The interpreter can be started";
constexpr const char* kTorch = "PyTorch is installed";
constexpr const char* kImports = "The job's packages can be imported";
constexpr const char* kOpenMp = "One process loads one OpenMP runtime";
constexpr const char* kForkUnsafe = "No package keeps threads that fork loses";
constexpr const char* kMixed = "No package was installed by both conda and pip";

// "libgomp.so.1 (torch, numpy)".
Message with_packages(const ThreadLibrary& library) {
  return as_path(library.name) + " (" + joined(library.packages, as_name) + ")";
}

const PythonPackage* find_package(const PythonFacts& python, std::string_view name) {
  const auto found = std::ranges::find(python.packages, name, &PythonPackage::name);
  return found == python.packages.end() ? nullptr : &*found;
}

// Python's own words of another environment than the job's mean nothing: one that nobody named
// counts where it has PyTorch.
bool is_of_the_job(const PythonFacts& python) {
  return python.is_named || (python.trouble.empty() && find_package(python, "torch") != nullptr);
}

bool forks(const Source& source) {
  return std::ranges::any_of(source.recording.runs, [](const Run& run) {
    return run.begin.plan && run.begin.plan->start_method == StartMethod::kFork;
  });
}

std::vector<const ThreadLibrary*> openmp_of(const PythonFacts& python) {
  std::vector<const ThreadLibrary*> runtimes;
  for (const ThreadLibrary& library : python.libraries) {
    if (is_openmp(library.name)) runtimes.push_back(&library);
  }
  return runtimes;
}

std::optional<Finding> interpreter_unusable(const Source& /*source*/, const PythonFacts& python) {
  if (!python.trouble.empty()) {
    if (python.is_late) return std::nullopt;
    Finding finding = new_finding(FindingCode::kInterpreterUnusable, Confidence::kCertain);
    finding.message = as_path(python.asked) + " cannot be used: " + as_text(python.trouble);
    finding.evidence = {text_fact("interpreter", as_path(python.asked), "--python")};
    add_remedy(finding, "Name the interpreter that starts the job",
               {"dlprobe gate --python /path/of/the/environment/bin/python"}, {"bare-host"});
    return finding;
  }
  Finding finding = new_finding(FindingCode::kInterpreterUnusable, Confidence::kCertain);
  std::vector<Message> failed;
  for (const PythonImport& each : python.imports) {
    if (each.trouble.empty()) continue;
    failed.push_back(as_name(each.module));
    finding.prove(text_fact("import " + each.module, as_text(each.trouble),
                            as_path(python.executable) + " -c 'import ...'"));
  }
  if (failed.empty()) return std::nullopt;
  const Message modules = joined(failed);
  finding.discriminator = modules.plain();
  finding.message = as_path(python.executable) + " cannot import " + modules + ": " +
                    std::get<Message>(finding.evidence.front().value);
  add_remedy(finding, "See the whole error",
             {as_path(python.executable) + " -c 'import " + failed.front() + "'"},
             {"bare-host", "docker", "kubernetes", "slurm"});
  return finding;
}

Finding two_openmp(Severity severity, Confidence confidence) {
  Finding finding = new_finding(FindingCode::kTwoOpenMpRuntimes, confidence);
  finding.severity = severity;
  add_remedy(finding, "Limit the threads of all runtimes at once",
             {"OMP_NUM_THREADS=1 python train.py",
              "threadpoolctl.threadpool_limits(limits=1)  # in worker_init_fn"},
             {"code"});
  add_remedy(finding, "Start workers from a clean process, which inherits no locks or threads",
             {"DataLoader(..., multiprocessing_context='forkserver')"}, {"code"});
  return finding;
}

// torch.set_num_threads(1), which PyTorch's workers call, reaches one of them.
std::optional<Finding> several_openmp(const Source& source, const PythonFacts& python) {
  const Severity severity = forks(source) ? Severity::kWarning : Severity::kInfo;
  if (python.loaded_openmp.size() > 1) {
    Finding finding = two_openmp(severity, Confidence::kCertain);
    finding.message = "one process of this interpreter loads " + own(python.loaded_openmp.size()) +
                      " OpenMP runtimes";
    for (const std::string& file : python.loaded_openmp)
      finding.prove(text_fact("openmp_runtime", as_path(file), "/proc/self/maps"));
    return finding;
  }
  // What was seen to be loaded is more than what might be.
  const bool was_seen = python.was_asked_to_import && python.import_trouble.empty();
  const std::vector<const ThreadLibrary*> runtimes = openmp_of(python);
  if (was_seen || runtimes.size() < 2) return std::nullopt;
  Finding finding = two_openmp(severity, Confidence::kPossible);
  std::vector<Message> words;
  for (const ThreadLibrary* each : runtimes) {
    words.push_back(with_packages(*each));
    finding.prove(text_fact("openmp_runtime",
                            as_path(each->name) + " of " + joined(each->packages, as_name) + ": " +
                                joined(each->files, as_path),
                            "RECORD, DT_NEEDED and DT_SONAME"));
  }
  finding.discriminator = "packages";
  finding.message = say("a process that imports them all loads {} OpenMP runtimes: {}",
                        runtimes.size(), joined(words));
  return finding;
}

std::optional<Finding> fork_unsafe(const Source& source, const PythonFacts& python) {
  if (!forks(source)) return std::nullopt;
  std::vector<Evidence> evidence;
  std::vector<Message> names;
  for (const ThreadLibrary& library : python.libraries) {
    if (thread_keeper(library.name) != ThreadKeeper::kPolars) continue;
    names.push_back(joined(library.packages, as_name));
    evidence.push_back(
        text_fact("library", joined(library.files, as_path), "RECORD and DT_SONAME"));
  }
  if (evidence.empty()) return std::nullopt;
  Finding finding = new_finding(FindingCode::kForkUnsafeLibraryLoaded, Confidence::kPossible);
  finding.discriminator = "packages";
  finding.message =
      joined(names) +
      " is installed: if the trainer uses it before it forks workers, its use in a worker hangs";
  finding.evidence = std::move(evidence);
  add_remedy(finding, "Start workers from a clean process, which inherits no locks or threads",
             {"DataLoader(..., multiprocessing_context='forkserver')"}, {"code"});
  return finding;
}

std::optional<Finding> mixed_conda_pip(const Source& /*source*/, const PythonFacts& python) {
  if (python.overlaps.empty()) return std::nullopt;
  Finding finding = new_finding(FindingCode::kMixedCondaPip, Confidence::kCertain);
  std::vector<Message> names;
  for (const CondaOverlap& each : python.overlaps) {
    Message versions = as_name(each.conda_version) + " by conda";
    for (const PythonPackage& other : each.others) {
      versions += ", " + as_name(other.version);
      if (!other.installer.empty()) versions += " by " + as_name(other.installer);
    }
    names.push_back(as_name(each.name));
    finding.prove(
        text_fact(each.name, versions, "conda-meta/*.json, *.dist-info and their INSTALLER"));
  }
  const Message packages = joined(names);
  finding.discriminator = packages.plain();
  const bool is_one = python.overlaps.size() == 1;
  finding.message =
      say("{} {} installed twice in one folder, by conda and by another installer: {}", packages,
          is_one ? "was" : "were", std::get<Message>(finding.evidence.front().value));
  const Message& first = names.front();
  add_remedy(finding, "Install each from one source",
             {as_path(python.executable) + " -m pip uninstall " + first,
              "conda install --force-reinstall " + first},
             {"bare-host", "docker"});
  return finding;
}

// "torch 2.6.0": the version may be unknown.
Message with_version(const std::string& name, const std::string& version) {
  return as_name(name) + (version.empty() ? "" : " " + as_name(version));
}

Message versions(const PythonFacts& python) {
  std::vector<Message> known;
  for (const PythonPackage& each : python.packages) {
    const bool is_told =
        each.name == "torch" || each.name == "numpy" || each.name.starts_with("opencv-");
    if (!is_told) continue;
    known.push_back(with_version(each.name, each.version));
    if (!each.installer.empty()) known.back() += " (" + as_name(each.installer) + ")";
  }
  return joined(known);
}

void check_imports(Checks& checks, const PythonFacts& python) {
  if (!python.was_asked_to_import) {
    checks.add_skipped("python.imports", kImports, "only --level full imports packages");
  } else if (!python.import_trouble.empty()) {
    checks.add_incomplete("python.imports", kImports, {FindingCode::kInterpreterUnusable},
                          as_text(python.import_trouble), longer_deadline(checks.source().facts));
  } else {
    const auto imported = [](const PythonImport& each) {
      return with_version(each.module, each.version);
    };
    checks.add("python.imports", kImports, {FindingCode::kInterpreterUnusable},
               python.imports.empty() ? "it has none of the packages that are tried"
                                      : joined(python.imports, imported));
  }
}

// Of what the packages' files say.
void check_libraries(Checks& checks, const PythonFacts& python) {
  using enum FindingCode;
  std::vector<Message> openmp;
  for (const ThreadLibrary* each : openmp_of(python))
    openmp.push_back(with_packages(*each));
  std::vector<Message> others;
  for (const ThreadLibrary& each : python.libraries) {
    if (!is_openmp(each.name)) others.push_back(with_packages(each));
  }
  const auto add = [&](const char* id, const char* title, FindingCode code, const Message& text) {
    if (python.not_read.empty()) {
      checks.add(id, title, {code}, text);
    } else if (python.is_named) {
      checks.add_incomplete(id, title, {code}, as_text(python.not_read),
                            longer_deadline(checks.source().facts));
    } else {
      checks.add_skipped(id, title, as_text(python.not_read));
    }
  };
  add("python.openmp", kOpenMp, kTwoOpenMpRuntimes,
      openmp.empty() ? "no package has an OpenMP runtime" : joined(openmp));
  add("python.fork-unsafe", kForkUnsafe, kForkUnsafeLibraryLoaded,
      others.empty() ? "none, besides OpenMP" : joined(others));
  add("python.mixed-conda-pip", kMixed, kMixedCondaPip,
      python.overlaps.empty() ? "no package of conda was overwritten" : "see the finding");
}

void skip_all_but_found(Checks& checks, const Message& why) {
  checks.add_skipped("python.torch", kTorch, why);
  checks.add_skipped("python.imports", kImports, why);
  checks.add_skipped("python.openmp", kOpenMp, why);
  checks.add_skipped("python.fork-unsafe", kForkUnsafe, why);
  checks.add_skipped("python.mixed-conda-pip", kMixed, why);
}

void skip_all(Checks& checks, const Message& why) {
  checks.add_skipped("python.found", kFound, why);
  skip_all_but_found(checks, why);
}

void check_unusable(Checks& checks, const PythonFacts& python) {
  if (python.is_late) {
    checks.add_incomplete("python.found", kFound, {FindingCode::kInterpreterUnusable},
                          as_text(python.trouble), longer_deadline(checks.source().facts));
  } else {
    checks.add("python.found", kFound, {FindingCode::kInterpreterUnusable},
               as_text(python.trouble));
  }
  skip_all_but_found(checks, as_path(python.asked) + " could not be asked");
}

}  // namespace

void add_python_findings(const Source& source, std::vector<Finding>& findings) {
  const auto& python = source.facts.python;
  if (!python || !is_of_the_job(*python)) return;
  for (const auto rule : {interpreter_unusable, several_openmp, fork_unsafe, mixed_conda_pip})
    add(findings, rule(source, *python));
}

void check_python(Checks& checks) {
  const auto& found = checks.source().facts.python;
  if (!found) return skip_all(checks, "no python3 in PATH; pass --python");
  const PythonFacts& python = *found;
  if (!is_of_the_job(python)) {
    const std::string& name = python.executable.empty() ? python.asked : python.executable;
    return skip_all(checks, (python.trouble.empty() ? as_path(name) + " has no PyTorch"
                                                    : as_text(python.trouble)) +
                                "; pass the job's interpreter with --python");
  }
  if (!python.trouble.empty()) return check_unusable(checks, python);
  checks.add("python.found", kFound, {},
             as_path(python.executable) + " is Python " + as_name(python.version));
  if (find_package(python, "torch") != nullptr) {
    checks.add("python.torch", kTorch, {}, versions(python));
  } else {
    const Message others = versions(python);
    checks.add_skipped("python.torch", kTorch,
                       "it has no torch" + (others.empty() ? "" : "; it has " + others));
  }
  check_imports(checks, python);
  check_libraries(checks, python);
}

}  // namespace dlprobe::probes::gate
