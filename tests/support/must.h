#pragma once

#include <optional>
#include <stdexcept>
#include <utility>

#include "lib/base/error.h"

namespace dlprobe {

/// The value that a test goes on with; ends the test by an exception that says why there is none.
template <class T>
T must(Expected<T> value) {
  if (!value) throw std::runtime_error(to_string(value.error()));
  return *std::move(value);
}
template <class T>
T must(std::optional<T> value) {
  return std::move(value).value();
}

}  // namespace dlprobe
