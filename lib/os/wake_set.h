#pragma once

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe {

/// Descriptors that are waited for together, each once: a set that can be polled for reading once
/// one of them has become readable. One that is closed leaves the set.
class WakeSet {
 public:
  static Expected<WakeSet> create();

  /// Adds a descriptor of the caller's. It counts each time that it becomes readable anew.
  Status add(int descriptor) const;

  /// Forgets what has become readable until now.
  void clear() const;

  /// To be polled for reading.
  int descriptor() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace dlprobe
