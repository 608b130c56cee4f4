#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lib/os/atomic_file.h"
#include "lib/record/codec.h"
#include "probes/probe.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

// Above what --record writes even with the thinning at its limit.
constexpr uint64_t kLargestRecording = uint64_t{2} << 30;

struct ReplayOptions {
  std::string path;
  OutputOptions output;
};

template <class T>
Expected<T> of_file(const std::string& path, Expected<T> done) {
  if (!done) done.error().context = path + ": " + done.error().context;
  return done;
}

Expected<Recording> load(const std::string& path) {
  RecordingReader reader;
  DLP_CHECK(read_file(path, kLargestRecording,
                      [&](std::string_view piece) { return of_file(path, reader.add(piece)); }));
  return of_file(path, std::move(reader).finish());
}

int replay(const ReplayOptions& options) {
  const auto outputs = planned_outputs(options.output);
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  const auto recording = load(options.path);
  if (!recording) return complain_and_return(recording.error(), kExitUsage);
  const Probe* probe = find_probe(recording->header.invocation.probe);
  if (probe == nullptr) {
    complain(options.path + " was made for the probe '" + recording->header.invocation.probe +
             "', which this dlprobe does not have");
    return kExitUsage;
  }
  return conclude(*recording, *probe, *outputs, options.output);
}

}  // namespace

void add_replay_command(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("replay", "diagnose a saved recording again, on any machine");
  const auto options = std::make_shared<ReplayOptions>();
  command->add_option("recording", options->path, "a file that --record wrote")
      ->required()
      ->type_name("FILE");
  add_output_options(*command, options->output);
  set_examples(*command, {{"replay hang.dlrec", "diagnose a recording again"},
                          {"replay hang.dlrec -f dot", "who waits for whom, for graphviz"}});
  command->callback([options, &exit_status] { exit_status = replay(*options); });
}

}  // namespace dlprobe
