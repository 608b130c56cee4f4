#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/os/file_system.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// A machine's files in memory. Paths are absolute; folders are there when something is in them.
class FakeFiles : public Directory {
 public:
  FakeFiles() : state_(std::make_shared<State>()) {}

  void add(const std::string& path, std::string text) { state_->texts[path] = std::move(text); }
  void add_link(const std::string& path, std::string target) {
    state_->links[path] = std::move(target);
  }
  void set_stat(const std::string& path, const FileStat& stat) { state_->stats[path] = stat; }
  void set_use(const std::string& path, const MountUse& use) { state_->uses[path] = use; }
  /// Every access to that path fails with that errno.
  void fail(const std::string& path, int os_errno) { state_->failures[path] = os_errno; }
  /// `path` and what is below it lead to `target` (as /proc/PID/root does).
  void alias(const std::string& path, std::string target) {
    state_->aliases[path] = std::move(target);
  }
  /// Takes away `path` and what is below it; files that are kept open say ESRCH from then on, as
  /// those of a process that was reaped, whoever has its pid later.
  void remove(const std::string& path) {
    const auto below = [&path](const auto& entry) { return is_below(entry.first, path); };
    for (const auto& entry : state_->texts)
      if (below(entry)) ++state_->removals[entry.first];
    std::erase_if(state_->texts, below);
    std::erase_if(state_->links, below);
    std::erase_if(state_->stats, below);
  }

  const std::string& path() const override { return path_; }
  using Directory::read;
  Expected<std::string> read(std::string_view name, size_t limit) const override {
    DLP_TRY(const std::string full, resolve(name));
    const auto found = state_->texts.find(full);
    if (found == state_->texts.end()) return os_failure("open " + full, ENOENT);
    if (found->second.size() > limit) return failure(ErrorCode::kMalformed, "read " + full);
    return found->second;
  }
  Expected<std::string> read_link(std::string_view name) const override {
    DLP_TRY(const std::string full, resolve(name));
    const auto found = state_->links.find(full);
    if (found == state_->links.end()) return os_failure("readlink " + full, ENOENT);
    return found->second;
  }
  Expected<std::vector<std::string>> list(std::string_view name) const override {
    DLP_TRY(const std::string full, resolve(name));
    std::vector<std::string> names;
    collect_names(state_->texts, full, names);
    collect_names(state_->links, full, names);
    collect_names(state_->stats, full, names);
    if (names.empty() && !exists(full)) return os_failure("list " + full, ENOENT);
    return names;
  }
  Expected<FileStat> stat(std::string_view name) const override {
    DLP_TRY(const std::string full, resolve(name));
    const auto found = state_->stats.find(full);
    if (found != state_->stats.end()) return found->second;
    if (exists(full)) return FileStat{};
    return os_failure("stat " + full, ENOENT);
  }
  Expected<FileStat> stat_link(std::string_view name) const override { return stat(name); }
  Expected<MountUse> mount_use(std::string_view name) const override {
    DLP_TRY(const std::string full, resolve(name));
    const auto found = state_->uses.find(full);
    if (found == state_->uses.end()) return os_failure("statfs " + full, ENOSYS);
    return found->second;
  }
  Expected<std::shared_ptr<const Directory>> open_directory(std::string_view name) const override {
    DLP_TRY(std::string full, resolve(name));
    if (!exists(full)) return os_failure("open " + full, ENOENT);
    return std::shared_ptr<const Directory>(new FakeFiles(state_, std::move(full)));
  }
  Expected<std::unique_ptr<const KeptFile>> keep_file(std::string_view name) const override {
    DLP_CHECK(read(name));
    DLP_TRY(std::string full, resolve(name));
    return std::make_unique<const Kept>(state_, std::move(full));
  }

 private:
  struct State {
    std::map<std::string, std::string> texts;
    std::map<std::string, std::string> links;
    std::map<std::string, FileStat> stats;
    std::map<std::string, MountUse> uses;
    std::map<std::string, int> failures;
    std::map<std::string, std::string> aliases;
    std::map<std::string, int> removals;  ///< how often a text was taken away
  };

  class Kept final : public KeptFile {
   public:
    Kept(std::shared_ptr<State> state, std::string path)
        : state_(std::move(state)), path_(std::move(path)), removals_(state_->removals[path_]) {}
    Expected<std::string_view> read(std::span<char> buffer) const override {
      const auto found = state_->texts.find(path_);
      const bool is_other = state_->removals[path_] != removals_;
      if (found == state_->texts.end() || is_other) return os_failure("read " + path_, ESRCH);
      const size_t length = std::min(buffer.size(), found->second.size());
      found->second.copy(buffer.data(), length);
      return std::string_view(buffer.data(), length);
    }

   private:
    std::shared_ptr<State> state_;
    std::string path_;
    int removals_;  ///< when it was opened
  };

  FakeFiles(std::shared_ptr<State> state, std::string path)
      : state_(std::move(state)), path_(std::move(path)) {}

  static bool is_below(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder + "/");
  }
  Expected<std::string> resolve(std::string_view name) const {
    std::string full = name.empty() ? path_ : join_path(*this, name);
    for (const auto& [from, to] : state_->aliases) {
      if (is_below(full, from)) full.replace(0, from.size(), to);
    }
    const auto failing = state_->failures.find(full);
    if (failing != state_->failures.end()) return os_failure("open " + full, failing->second);
    return full;
  }
  bool exists(const std::string& full) const {
    const auto below = [&full](const auto& entry) { return is_below(entry.first, full); };
    return std::ranges::any_of(state_->texts, below) || std::ranges::any_of(state_->links, below) ||
           std::ranges::any_of(state_->stats, below) || std::ranges::any_of(state_->uses, below);
  }
  template <class Map>
  static void collect_names(const Map& entries, const std::string& folder,
                            std::vector<std::string>& names) {
    for (const auto& [path, value] : entries) {
      if (!path.starts_with(folder + "/")) continue;
      const std::string rest = path.substr(folder.size() + 1);
      const std::string name = rest.substr(0, rest.find('/'));
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }

  std::shared_ptr<State> state_;
  std::string path_;
};

}  // namespace dlprobe
