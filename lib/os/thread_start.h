#pragma once

#include <functional>
#include <string>
#include <thread>

#include "lib/base/error.h"

namespace dlprobe {

/// A thread that does `work`; kInsufficient where dlprobe may not start one, with `what` it was for
/// in the context. It is joined at the end of the result's life.
Expected<std::jthread> start_thread(const std::string& what, std::function<void()> work);

}  // namespace dlprobe
