#include <cstdio>

#include "reports/report.h"
#include "tools/dlprobe/command.h"

namespace dlprobe {

void add_schema_command(CLI::App& app, int& /*exit_status*/) {
  app.add_subcommand("schema", "the JSON schema of the report")->callback([] {
    const std::string_view schema = report_schema();
    std::fwrite(schema.data(), 1, schema.size(), stdout);
  });
}

}  // namespace dlprobe
