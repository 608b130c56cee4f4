#include "lib/collect/tree/roles.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "lib/foreign/resource_tracker.h"

namespace dlprobe {
namespace {

constexpr std::string_view kLoaderExe = "dlprobe-reference-loader";

bool has_argument(const RoleFacts& facts, std::string_view part) {
  return std::ranges::any_of(
      facts.cmdline, [part](const std::string& argument) { return argument.contains(part); });
}

/// comm is whatever a process says of itself; of the reference loader it counts with its program.
bool is_loader_part(const RoleFacts& facts, std::string_view comm) {
  return facts.comm == comm && (facts.exe_name.empty() || facts.exe_name == kLoaderExe);
}

bool has_torch_handlers(const RoleFacts& facts) {
  constexpr std::array kSignals = {SIGBUS, SIGSEGV, SIGFPE, SIGTERM};
  return std::ranges::all_of(kSignals, [&facts](int signal) {
    return (facts.signals_caught >> static_cast<unsigned>(signal - 1) & 1U) != 0;
  });
}

bool is_forked_python(const RoleFacts& facts, const RoleFacts& parent) {
  if (!is_python(facts) || !is_python(parent)) return false;
  if (facts.forked_without_exec) return *facts.forked_without_exec;
  return !facts.cmdline.empty() && facts.cmdline == parent.cmdline;
}

// A zombie has neither program nor command line any more.
bool is_dead_python(const RoleFacts& facts) {
  return facts.exe_name.empty() && facts.cmdline.empty() && facts.comm.starts_with("python");
}

bool is_spawned(const RoleFacts& facts) {
  return has_argument(facts, "from multiprocessing.spawn import spawn_main");
}

bool is_forkserver_command(const RoleFacts& facts) {
  return has_argument(facts, "from multiprocessing.forkserver import main");
}

bool is_forkserver(const RoleFacts& facts, const RoleFacts* parent) {
  if (is_loader_part(facts, "dlp-forkserver")) return true;
  // Its workers keep its command line, being forked from it.
  return is_forkserver_command(facts) && (parent == nullptr || !is_forkserver_command(*parent));
}

enum class Strength { kNone, kWeak, kStrong };

/// What a process and its parent alone say.
struct OwnRole {
  Role role = Role::kOther;
  Strength strength = Strength::kNone;  ///< of a worker
  std::string basis;
  std::optional<StartMethod> start_method;
};

OwnRole helper(Role role, std::string basis) {
  OwnRole own;
  own.role = role;
  own.basis = std::move(basis);
  return own;
}

std::optional<OwnRole> helper_role(const RoleFacts& facts, const RoleFacts* parent) {
  if (facts.exe_name == "torch_shm_manager" || facts.comm == "torch_shm_manag") {
    return helper(Role::kShmManager, "its program is torch_shm_manager");
  }
  if (is_loader_part(facts, "dlp-shm-manager")) {
    return helper(Role::kShmManager, "the reference loader's shm manager by its name");
  }
  if (std::ranges::any_of(facts.cmdline, is_of_resource_tracker)) {
    return helper(Role::kResourceTracker, "its command line runs multiprocessing.resource_tracker");
  }
  if (is_forkserver(facts, parent)) {
    return helper(Role::kForkserver, "its command line runs multiprocessing.forkserver");
  }
  return std::nullopt;
}

std::optional<StartMethod> start_method_of(const RoleFacts& facts, const RoleFacts& parent) {
  if (is_forkserver(parent, nullptr) &&
      (is_forkserver_command(facts) || parent.comm == "dlp-forkserver")) {
    return StartMethod::kForkserver;
  }
  if (facts.forked_without_exec == true) return StartMethod::kFork;
  if (is_spawned(facts) && facts.cmdline != parent.cmdline) return StartMethod::kSpawn;
  if (facts.comm == "dlp-worker" && facts.forked_without_exec == false) return StartMethod::kSpawn;
  if (!facts.cmdline.empty() && facts.cmdline == parent.cmdline) return StartMethod::kFork;
  return std::nullopt;
}

/// Started in one of multiprocessing's ways, by whatever program has Python inside.
bool is_of_multiprocessing(const RoleFacts& facts, const RoleFacts& parent) {
  return facts.forked_without_exec == true || is_forked_python(facts, parent) ||
         (is_spawned(facts) && facts.cmdline != parent.cmdline);
}

// Of one whose parent is not known.
OwnRole orphaned_role(const RoleFacts& facts) {
  if (!is_orphaned_worker(facts)) return {};
  OwnRole role = helper(Role::kWorker, "a data worker of torch whose trainer has ended");
  role.strength = Strength::kStrong;
  role.start_method = StartMethod::kFork;
  return role;
}

OwnRole own_role(const RoleFacts& facts, const RoleFacts* parent) {
  if (auto helping = helper_role(facts, parent)) return *helping;
  if (parent == nullptr) return orphaned_role(facts);
  OwnRole role = helper(Role::kWorker, "");
  role.start_method = start_method_of(facts, *parent);
  if (facts.comm == "pt_data_worker" && parent->comm != facts.comm) {
    role.strength = Strength::kStrong;
    role.basis = "torch named it pt_data_worker";
  } else if (is_loader_part(facts, "dlp-worker")) {
    role.strength = Strength::kStrong;
    role.basis = "the reference loader's worker by its name";
  } else if (is_of_multiprocessing(facts, *parent) && has_torch_handlers(facts) &&
             !has_torch_handlers(*parent)) {
    role.strength = Strength::kStrong;
    role.basis = "it catches SIGBUS, SIGSEGV, SIGFPE and SIGTERM as torch's data workers do";
  } else if (role.start_method == StartMethod::kForkserver) {
    role.strength = Strength::kWeak;
    role.basis = "forked by multiprocessing's forkserver";
  } else if (is_spawned(facts) && facts.cmdline != parent->cmdline) {
    role.strength = Strength::kWeak;
    role.basis = "its command line runs multiprocessing.spawn";
  } else if (is_forked_python(facts, *parent)) {
    role.strength = Strength::kWeak;
    role.basis = "forked from a Python process without execve";
  } else if (is_dead_python(facts) && is_python(*parent)) {
    role.strength = Strength::kWeak;
    role.basis = "it had ended when dlprobe came, a child of Python by the name of Python";
  } else {
    role = {};
  }
  return role;
}

/// Roles of a whole tree. Indices are those of `facts`; npos is "none".
class RoleTable {
 public:
  RoleTable(std::span<const RoleFacts> facts, const ProcessKey& root)
      : facts_(facts), root_(index_of(root)) {
    for (const RoleFacts& one : facts) {
      const size_t parent = parent_of(one);
      own_.push_back(own_role(one, parent == kNone ? nullptr : &facts[parent]));
    }
    answers_.resize(facts.size());
    trainers_.assign(facts.size(), false);
  }

  std::vector<RoleAnswer> take() {
    const bool has_strong = mark_trainers(Strength::kStrong);
    const bool has_ranks = mark_ranks();
    const bool any = has_strong || has_ranks || mark_loader() || mark_trainers(Strength::kWeak);
    if (!any) mark_fallback();
    for (size_t i = 0; i < facts_.size(); ++i)
      answers_[i] = answer(i);
    mark_launchers();
    return std::move(answers_);
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  size_t index_of(const ProcessKey& key) const {
    const auto found = std::ranges::find(facts_, key, &RoleFacts::key);
    return found == facts_.end() ? kNone : static_cast<size_t>(found - facts_.begin());
  }
  size_t parent_of(const RoleFacts& facts) const {
    return facts.parent ? index_of(*facts.parent) : kNone;
  }
  /// Whom a worker works for: its parent, or the forkserver's.
  size_t consumer_of(size_t worker) const {
    const size_t parent = parent_of(facts_[worker]);
    if (parent == kNone || own_[parent].role != Role::kForkserver) return parent;
    return parent_of(facts_[parent]);
  }

  bool mark_trainers(Strength strength) {
    bool any = false;
    for (size_t i = 0; i < facts_.size(); ++i) {
      const size_t consumer = own_[i].strength == strength ? consumer_of(i) : kNone;
      // A worker's own children do not make it a trainer.
      if (consumer == kNone || own_[consumer].strength == strength) continue;
      trainers_[consumer] = true;
      any = true;
    }
    return any;
  }

  bool mark_loader() {
    bool any = false;
    for (size_t i = 0; i < facts_.size(); ++i) {
      if (!is_loader_part(facts_[i], "dlp-loader")) continue;
      trainers_[i] = true;
      any = true;
    }
    return any;
  }

  /// Of each rank of a job of several the topmost Python process, unless a trainer was found in it:
  /// its children have its variables, too. One that starts ranks of another job is their launcher.
  bool mark_ranks() {
    std::vector<size_t> found;
    for (size_t i = 0; i < facts_.size(); ++i) {
      const auto& rank = facts_[i].rank;
      const bool is_one = rank && rank->world_size.value_or(2) > 1 && is_python(facts_[i]) &&
                          own_[i].strength != Strength::kStrong && !is_below_its_rank(i) &&
                          !starts_other_job(i);
      if (is_one) found.push_back(i);
    }
    for (const size_t each : found)
      trainers_[each] = true;
    return !found.empty();
  }

  bool is_same_rank(size_t a, size_t b) const {
    const auto& one = facts_[a].rank;
    const auto& other = facts_[b].rank;
    return one && other && one->rank == other->rank && one->job == other->job;
  }

  bool is_below_its_rank(size_t i) const {
    size_t at = parent_of(facts_[i]);
    for (size_t steps = 0; at != kNone && steps < facts_.size(); ++steps) {
      if (is_same_rank(i, at) && is_python(facts_[at])) return true;
      at = parent_of(facts_[at]);
    }
    return false;
  }

  bool starts_other_job(size_t i) const {
    const auto& own = facts_[i].rank;
    return std::ranges::any_of(facts_, [&](const RoleFacts& each) {
      if (!each.rank || !own || each.rank->job == own->job) return false;
      size_t at = parent_of(each);
      for (size_t steps = 0; at != kNone && at != i && steps < facts_.size(); ++steps)
        at = parent_of(facts_[at]);
      return at == i;
    });
  }

  /// Nothing looks like a worker: the topmost Python process, else the root, is what trains.
  void mark_fallback() {
    size_t best = root_;
    size_t best_depth = kNone;
    for (size_t i = 0; i < facts_.size(); ++i) {
      if (!is_python(facts_[i]) || own_[i].role != Role::kOther || facts_[i].orphaned) continue;
      if (depth_of(i) >= best_depth) continue;
      best = i;
      best_depth = depth_of(i);
    }
    if (best != kNone && !facts_[best].orphaned) trainers_[best] = true;
  }

  size_t depth_of(size_t index) const {
    size_t depth = 0;
    for (size_t at = parent_of(facts_[index]); at != kNone && depth < facts_.size();
         at = parent_of(facts_[at])) {
      ++depth;
    }
    return depth;
  }

  RoleAnswer answer(size_t i) const {
    const OwnRole& own = own_[i];
    if (trainers_[i]) return {.role = Role::kTrainer, .basis = trainer_basis(i)};
    if (own.role == Role::kOther && facts_[i].orphaned) {
      return {.role = Role::kOther,
              .basis = "forked, and the process that forked it has ended",
              .start_method = StartMethod::kFork};
    }
    if (own.role == Role::kOther) return {};
    if (own.role != Role::kWorker) return {.role = own.role, .basis = own.basis};
    const size_t consumer = consumer_of(i);
    if (consumer != kNone && trainers_[consumer]) {
      return {.role = Role::kWorker,
              .basis = "child of the trainer; " + own.basis,
              .start_method = own.start_method};
    }
    if (own.strength == Strength::kStrong) {
      return {.role = Role::kWorker, .basis = own.basis, .start_method = own.start_method};
    }
    return {.role = Role::kOther, .basis = own.basis + ", but not by a trainer"};
  }

  std::string trainer_basis(size_t trainer) const {
    for (size_t i = 0; i < facts_.size(); ++i) {
      if (own_[i].strength != Strength::kNone && consumer_of(i) == trainer) {
        return "its children are workers";
      }
    }
    if (is_loader_part(facts_[trainer], "dlp-loader")) return "the reference loader by its name";
    if (const auto& rank = facts_[trainer].rank) return "a rank of a job, by " + rank->source;
    if (is_python(facts_[trainer])) return "the topmost Python process; it has no workers yet";
    return "the root of the watched tree; it has no workers yet";
  }

  /// What stands between the root and a trainer starts it and is no part of the loader.
  void mark_launchers() {
    for (size_t i = 0; i < facts_.size(); ++i) {
      if (!trainers_[i]) continue;
      size_t at = parent_of(facts_[i]);
      for (size_t steps = 0; at != kNone && steps < facts_.size(); ++steps) {
        if (trainers_[at] || answers_[at].role == Role::kLauncher) break;
        answers_[at] = {.role = Role::kLauncher, .basis = "an ancestor of the trainer"};
        at = parent_of(facts_[at]);
      }
    }
  }

  std::span<const RoleFacts> facts_;
  size_t root_;
  std::vector<OwnRole> own_;
  std::vector<bool> trainers_;
  std::vector<RoleAnswer> answers_;
};

}  // namespace

bool is_python(const RoleFacts& facts) {
  return facts.exe_name.starts_with("python") || facts.exe_name.starts_with("pypy");
}

bool is_orphaned_worker(const RoleFacts& facts) {
  return facts.orphaned && (facts.comm == "pt_data_worker" || has_torch_handlers(facts));
}

bool takes_part(Role role) {
  return role == Role::kTrainer || role == Role::kWorker || role == Role::kForkserver;
}

std::vector<RoleAnswer> assign_roles(std::span<const RoleFacts> facts, const ProcessKey& root) {
  return RoleTable(facts, root).take();
}

std::optional<LoaderPart> belongs_to_parent(const RoleFacts& facts, const RoleFacts& parent) {
  OwnRole own = own_role(facts, &parent);
  if (own.role == Role::kOther) return std::nullopt;
  return LoaderPart{.role = own.role,
                    .certain = own.role != Role::kWorker || own.strength == Strength::kStrong,
                    .basis = std::move(own.basis)};
}

}  // namespace dlprobe
