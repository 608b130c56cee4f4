#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "probes/deadlock/ranks.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"

namespace dlprobe::probes::deadlock {
namespace {

constexpr double kMostlyBusy = 0.5;  // of a core

// Of operations that do not fit together it is not known who is in the wrong one. Where ranks are
// missing the thread is one that waits for them.
bool is_about_its_thread(const Finding& finding) {
  return finding.code != FindingCode::kCollectiveMismatch && finding.discriminator != "elsewhere" &&
         std::ranges::count(finding.evidence, "missing_ranks", &Evidence::name) == 0;
}

std::string id_of(const ThreadFacts& thread) {
  return "thread " + own(thread.process->key.pid) + "/" + own(thread.thread->tid);
}

// `roots` are the ids of the threads at which a cause was found.
Activity activity_of(const ThreadFacts& thread, const std::set<std::string>& spinning,
                     const std::set<std::string>& roots, bool is_met_idle) {
  const char state = thread.thread->state;
  if (thread.need.kind == NeedKind::kContinue) return Activity::kStopped;
  if (!thread.has_history) return Activity::kUnknown;
  if (state == 'D' && thread.still) return Activity::kBlockedInKernel;
  if (spinning.contains(id_of(thread))) return Activity::kSpinning;
  // Who only waits to be woken may wait for a signal: no more than idle, unless a cause was found.
  const bool is_root = roots.contains(id_of(thread));
  const bool is_parked = thread.need.kind == NeedKind::kNotification && !is_root;
  // Where no cause was found the wait is not said to be for ever.
  if (thread.doomed && !is_parked && !roots.empty()) return Activity::kStuck;
  const bool waits_in_a_loop = thread.waits_again && !thread.still;
  if (is_root && waits_in_a_loop && thread.need.kind != NeedKind::kNothing) return Activity::kStuck;
  if (thread.still || thread.polls_again) {
    if (thread.need.kind == NeedKind::kNothing) return Activity::kSleeping;
    if (thread.need.kind == NeedKind::kNotification) return Activity::kIdle;
    return Activity::kWaiting;
  }
  // It ran in between, and was not met at work.
  if (is_met_idle) return Activity::kIdle;
  return Activity::kRunning;
}

class GraphMaker {
 public:
  GraphMaker(const Facts& facts, const std::vector<RootCause>& causes)
      : facts_(facts), causes_(causes) {
    for (const RootCause& cause : causes) {
      const ThreadFacts& thread = facts.threads[cause.thread];
      const bool spins = !thread.still && thread.need.kind == NeedKind::kNothing &&
                         thread.busy_share >= kMostlyBusy;
      if (spins) spinning_.insert(id_of(thread));
      wanted_.insert(cause.thread);
      if (cause.finding.severity != Severity::kInfo) roots_.insert(id_of(thread));
      for (const size_t provider : thread.need.providers)
        if (thread.need.kind != NeedKind::kLock) wanted_.insert(provider);
      add_way_to(cause);
    }
    for (size_t i = 0; i < facts.threads.size(); ++i) {
      const ThreadFacts& thread = facts.threads[i];
      const bool held = thread.doomed && thread.need.kind != NeedKind::kNotification;
      if (thread.is_main() || held) wanted_.insert(i);
    }
  }

  WaitGraph make() {
    for (const size_t each : wanted_)
      add_thread(facts_.threads[each]);
    for (const size_t each : wanted_)
      add_edges(each);
    graph_.chain = chain();
    return std::move(graph_);
  }

 private:
  // Within its process, from the main thread. A circle is shown from where it begins.
  void add_way_to(const RootCause& cause) {
    const ProcessKey& key = facts_.threads[cause.thread].process->key;
    const size_t main = facts_.find(key, key.pid);
    if (main == Facts::kNone) return;
    const std::vector<size_t> way = way_within(facts_, main);
    if (std::ranges::count(way, cause.thread) == 0) return;
    wanted_.insert(way.begin(), way.end());
    for (size_t i = 0; i + 1 < way.size(); ++i) {
      next_within_[way[i]] = way[i + 1];
      if (cause.finding.code != FindingCode::kLockCycle) inner_.insert(way[i + 1]);
    }
  }

  void add_thread(const ThreadFacts& thread) {
    WaitNode node{.id = id_of(thread), .label = name_of(facts_, thread), .is_thread = true};
    node.process = thread.process->key;
    node.tid = thread.thread->tid;
    node.role = thread.role();
    node.activity = activity_of(thread, spinning_, roots_, waits_for_task(facts_, thread));
    if (thread.still) node.since = thread.since;
    node.waits_for = thread.need.words;
    if (node.waits_for.empty() && waits_for_gpu(*thread.thread)) node.waits_for = "the GPU";
    if (!thread.thread->stack.empty()) node.at = thread.thread->stack.front();
    if (const StackFrame* frame = user_frame(*thread.thread)) node.in_code = *frame;
    graph_.nodes.push_back(std::move(node));
  }

  // Another way leads there: from the main thread, which whoever waits for the process needs.
  bool is_beside_the_way(size_t from, size_t to) const {
    const auto next = next_within_.find(from);
    if (next != next_within_.end()) return next->second != to;
    return inner_.contains(to) && facts_.threads[from].process != facts_.threads[to].process;
  }

  void add_edges(size_t index) {
    const ThreadFacts& thread = facts_.threads[index];
    const Need& need = thread.need;
    const std::string from = id_of(thread);
    std::string holder_end = from;
    if (!need.object.empty()) {
      if (objects_.insert(need.object).second) {
        graph_.nodes.push_back({.id = need.object, .label = need.label});
      }
      graph_.edges.push_back({.from = from, .to = need.object, .relation = "waits for"});
      holder_end = need.object;
    }
    std::string relation = need.relation;
    if (relation.ends_with(" one of"))
      relation = (need.providers.size() > 1 ? "maybe " : "") +
                 relation.substr(0, relation.size() - std::string_view(" one of").size());
    // Of data that another process may write none of its own threads is the first to look at.
    const bool is_from_others = std::ranges::any_of(need.providers, [&](size_t each) {
      return need.kind == NeedKind::kChannel && wanted_.contains(each) &&
             facts_.threads[each].process != thread.process;
    });
    for (const size_t each : need.providers) {
      const bool is_inside = is_from_others && facts_.threads[each].process == thread.process;
      if (!wanted_.contains(each) || is_inside || is_beside_the_way(index, each)) continue;
      WaitEdge edge{.from = holder_end, .to = id_of(facts_.threads[each]), .relation = relation};
      // Several wait for one object: its edges to the holders once.
      if (std::ranges::find(graph_.edges, edge) == graph_.edges.end()) {
        graph_.edges.push_back(std::move(edge));
      }
    }
  }

  std::string trainer() const {
    for (const WaitNode& node : graph_.nodes)
      if (node.is_thread && node.role == Role::kTrainer && node.process &&
          node.tid == node.process->pid)
        return node.id;
    return {};
  }

  // The shortest way along the edges; empty if there is none.
  std::vector<std::string> way(const std::string& from, const std::string& to) const {
    std::map<std::string, std::string> came_from;
    std::deque<std::string> queue = {from};
    came_from[from] = "";
    while (!queue.empty() && !came_from.contains(to)) {
      const std::string at = queue.front();
      queue.pop_front();
      for (const WaitEdge& edge : graph_.edges)
        if (edge.from == at && came_from.emplace(edge.to, at).second) queue.push_back(edge.to);
    }
    if (!came_from.contains(to)) return {};
    std::vector<std::string> nodes;
    for (std::string at = to; !at.empty(); at = came_from.at(at))
      nodes.push_back(at);
    std::ranges::reverse(nodes);
    return nodes;
  }

  // The shortest way from a node back to itself, without its first step; empty if there is none.
  std::vector<std::string> way_back(const std::string& start) const {
    std::vector<std::string> shortest;
    for (const WaitEdge& edge : graph_.edges) {
      if (edge.from != start) continue;
      std::vector<std::string> nodes = way(edge.to, start);
      if (!nodes.empty() && (shortest.empty() || nodes.size() < shortest.size())) {
        shortest = std::move(nodes);
      }
    }
    return shortest;
  }

  std::vector<std::string> chain() const {
    if (causes_.empty() || causes_.front().finding.severity == Severity::kInfo) return {};
    if (!is_about_its_thread(causes_.front().finding)) return {};
    const ThreadFacts& cause = facts_.threads[causes_.front().thread];
    std::vector<std::string> nodes = way(trainer(), id_of(cause));
    if (nodes.empty()) nodes = {id_of(cause)};
    std::vector<std::string> circle;
    if (causes_.front().finding.code == FindingCode::kLockCycle) circle = way_back(id_of(cause));
    if (circle.empty() && !cause.need.object.empty()) circle = {cause.need.object};
    // To where it closes.
    for (std::string& node : circle) {
      const bool closes = std::ranges::find(nodes, node) != nodes.end();
      nodes.push_back(std::move(node));
      if (closes) break;
    }
    return nodes;
  }

  const Facts& facts_;
  const std::vector<RootCause>& causes_;
  std::set<size_t> wanted_;
  std::map<size_t, size_t> next_within_;  ///< of those on the way to a cause
  std::set<size_t> inner_;                ///< those who are not its first
  std::set<std::string> spinning_;
  std::set<std::string> roots_;
  std::set<std::string> objects_;
  WaitGraph graph_;
};

}  // namespace

WaitGraph make_wait_graph(const Facts& facts, const std::vector<RootCause>& causes) {
  return GraphMaker(facts, causes).make();
}

}  // namespace dlprobe::probes::deadlock
