#include "reports/model/report.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {

void add_schema_command(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("schema", "the JSON schema of the report");
  set_examples(*command,
               {{"schema > report.schema.json", "draft 2020-12; see docs/report-schema.md"}});
  command->callback([&exit_status] { exit_status = print(report_schema()); });
}

}  // namespace dlprobe
