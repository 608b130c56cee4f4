#pragma once

#include <string>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/gate_facts.h"
#include "lib/model/loader_plan.h"
#include "lib/model/recording_view.h"

namespace dlprobe::probes::gate {

/// What the rules of the gate look at.
struct Source {
  RecordingView recording;
  const Run& run;  ///< the one with the facts
  const GateFacts& facts;
  const LoaderPlan& plan;
};

/// An argument that gives the gate three times the time it had.
OwnWords longer_deadline(const GateFacts& facts);

/// Of a finding of the gate; the gate shows whether it helped.
void add_remedy(Finding& finding, Message title, std::vector<Message> commands,
                std::vector<std::string> places);

/// Adds the named checks one after another; of those that could not be made a gap, too.
class Checks {
 public:
  Checks(const Source& source, Verdict& verdict) : source_(source), verdict_(verdict) {}

  /// A pass, unless a finding of one of `codes` is there.
  void add(std::string id, std::string title, std::vector<FindingCode> codes, Message text);

  void add_incomplete(std::string id, std::string title, std::vector<FindingCode> codes,
                      const Message& why, const OwnWords& remedy = "");

  /// Skipped, unless a finding of one of `codes` is there.
  void add_skipped(std::string id, std::string title, Message why,
                   std::vector<FindingCode> codes = {});

  /// A run of the reference loader.
  void add_loader(size_t index, const Run& run);

  const Source& source() const { return source_; }

 private:
  void put(NamedCheck check);
  const Source& source_;
  Verdict& verdict_;
};

}  // namespace dlprobe::probes::gate
