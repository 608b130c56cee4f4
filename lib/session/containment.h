#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "lib/model/recording.h"
#include "lib/session/run_context.h"

namespace dlprobe {

/// Keeps the tree of a trial from outgrowing it.
class Containment {
 public:
  /// While it lives dlprobe gets its turn among the many processes of a tree that multiplies, where
  /// it may.
  Containment(const Trial& trial, RunContext& context);
  ~Containment();
  Containment(const Containment&) = delete;
  Containment& operator=(const Containment&) = delete;

  /// Has the tree looked at more often.
  static void put(CollectOptions& options);

  /// Why the tree of the current run, of which so many live, is to be killed; nothing: it may go
  /// on.
  std::optional<OwnWords> why_break_off(size_t living) const;

 private:
  OwnWords tell(std::string_view kind, OwnWords text) const;
  std::optional<OwnWords> why_nothing_more_comes(const Run& run) const;

  Trial trial_;
  RunContext& context_;
  int priority_before_;
};

}  // namespace dlprobe
