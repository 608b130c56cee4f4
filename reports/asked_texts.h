#pragma once

#include <span>
#include <string_view>

#include "lib/model/finding.h"

namespace dlprobe {

/// A text that PyTorch, CPython, a library, the shell or a scheduler prints where a job fails, and
/// that people ask `dlprobe explain` about: it says nothing sure of the cause.
struct AskedText {
  std::string_view text;
  std::span<const FindingCode> codes;  ///< what may be behind it, the most frequent first
};

/// The texts that the pages of findings do not quote, or that several share.
std::span<const AskedText> asked_texts();

}  // namespace dlprobe
