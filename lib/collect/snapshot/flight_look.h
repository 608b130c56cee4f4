#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/foreign/flight_dump.h"
#include "lib/model/snapshot.h"
#include "lib/os/clock.h"
#include "lib/os/deadline.h"
#include "lib/os/file_system.h"
#include "lib/os/job_rank.h"
#include "lib/stacks/native/address_space.h"

namespace dlprobe {

/// Whether an entry of an environment, NAME=VALUE, is one of those that flight_dump_files asks for.
bool tells_flight_dump(std::string_view entry);

/// Where PyTorch's Flight Recorder writes the dump of that rank: by TORCH_FR_DUMP_TEMP_FILE, or
/// where none is told by default (torch 2.x), the newest version's first. Relative ones to its
/// folder.
std::vector<std::string> flight_dump_files(const EnvironmentLookup& environment, int32_t rank);

/// A rank whose Flight Recorder may have written a dump.
struct FlightWriter {
  std::shared_ptr<const Directory> directory;  ///< its /proc directory
  std::vector<std::string> files;              ///< where it does
  uint32_t uid = 0;                            ///< its user
  int64_t started_ns = 0;                      ///< CLOCK_REALTIME
};

/// Its dump: a regular file of that user, in the rank's own view of the files, written since the
/// process began by a thread that is in `space`. kNotFound if there is none. The files' storage may
/// not answer: `reader` limits that.
Expected<FlightRecord> read_flight_record(const FlightWriter& writer, const AddressSpace& space,
                                          const Clock& clock, DeadlineReader& reader);

/// Adds to what a rank's memory says what its dump knows of the same collectives: where they were
/// asked for, their tensors, their timeouts.
void add_dump(FlightRecord& live, const FlightRecord& dump);

/// How far its rank is in each group, by name. Messages from rank to rank are left out; of many
/// groups those are there that were asked last. `now_ns`: CLOCK_REALTIME.
std::vector<FlightGroup> groups_of_dump(const FlightDump& dump, int64_t now_ns);

}  // namespace dlprobe
