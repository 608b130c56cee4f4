#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "probes/probe.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {

/// What the witness tells of a job, one word after the other, and what the probe `data` says of it.
class ToldTest : public ::testing::Test {
 protected:
  void tell(StartEvent event) {
    if (event.at == 0) event.at = Scene::at(++told_);
    scene_.run().start_events.push_back(std::move(event));
  }

  std::vector<Finding> found() const {
    return probes::data::kProbe.examine(scene_.recording).findings;
  }
  Finding only() const { return only_finding(probes::data::kProbe.examine(scene_.recording)); }

 private:
  Scene scene_;
  double told_ = 0;
};

}  // namespace dlprobe
