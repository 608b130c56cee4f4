#include "lib/subject/loader_progress.h"

#include <nlohmann/json.hpp>

#include "lib/subject/start_event_line.h"

namespace dlprobe {
namespace {

using nlohmann::json;

LoaderHello hello_from(const json& line) {
  return {.at = line.at("at"),
          .device = line.at("device"),
          .device_name = line.at("device_name"),
          .libtorch = line.at("libtorch"),
          .opencv = line.at("opencv"),
          .images = line.at("images"),
          .batches_per_epoch = line.at("batches_per_epoch")};
}

LoaderBatch batch_from(const json& line) {
  return {.at = line.at("at"),
          .epoch = line.at("epoch"),
          .index = line.at("index"),
          .worker = line.at("worker"),
          .samples = line.at("samples"),
          .bytes = line.at("bytes"),
          .wait_s = line.at("wait_s"),
          .fetch_s = line.at("fetch_s"),
          .copy_s = line.at("copy_s"),
          .step_s = line.at("step_s")};
}

LoaderDone done_from(const json& line) {
  return {.at = line.at("at"),
          .images = line.at("images"),
          .seconds = line.at("seconds"),
          .first_batch_s = line.at("first_batch_s"),
          .broken_images = line.at("broken_images")};
}

Event event_from(const json& line, const std::string& kind) {
  return {
      .at = line.at("at"), .kind = "loader-" + kind, .text = line.value("text", ""), .process = {}};
}

}  // namespace

Expected<Record> parse_progress_line(std::string_view text) {
  // nlohmann_json reports a missing or mistyped member by an exception; it ends here.
  try {
    const json line = json::parse(text);
    const std::string event = line.at("event");
    if (event == "hello") return hello_from(line);
    if (event == "batch") return batch_from(line);
    if (event == "done") return done_from(line);
    if (event == "start") {
      DLP_TRY(StartEvent told, parse_start_event(text));
      return told;
    }
    return event_from(line, event);
  } catch (const json::exception& error) {
    return failure(ErrorCode::kMalformed,
                   "a progress line of the reference loader: " + std::string(error.what()));
  }
}

}  // namespace dlprobe
