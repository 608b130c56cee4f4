#include "lib/subject/script_reader.h"

#include <algorithm>
#include <chrono>

#include "lib/base/parse.h"
#include "lib/subject/ask_program.h"
#include "lib/subject/python_command.h"
#include "lib/subject/python_shim/sources.h"
#include "lib/subject/told_lines.h"

namespace dlprobe {

Expected<std::vector<StartEvent>> read_script(const std::vector<std::string>& argv,
                                              const Machine& machine) {
  constexpr auto kPatience = std::chrono::seconds(20);
  DLP_TRY(const PythonCommand command, parse_python_command(argv));
  const std::string kind(to_string(command.program));
  if (kind != "script" && kind != "module" && kind != "code") {
    return failure(ErrorCode::kUnsupported,
                   "the command names no program that could be read; give it as a file: " +
                       argv[command.interpreter] + " train.py");
  }
  const auto interpreter = argv.begin() + static_cast<std::ptrdiff_t>(command.interpreter);
  std::vector<std::string> question(argv.begin(), interpreter + 1);
  for (const std::string_view word : {"-I", "-S", "-B", "-W", "ignore", "-c"})
    question.emplace_back(word);
  question.insert(question.end(), {std::string(read_script_source()), kind, command.name});
  DLP_TRY(const ProgramAnswer said,
          ask_program(question, *machine.clock, "read the program", kPatience));
  std::vector<StartEvent> events;
  for (const std::string_view line : split(said.text, '\n')) {
    // A wrapper or a warning may say something as well.
    auto event = parse_start_event(line);
    if (!event) continue;
    if (event->kind == StartEventKind::kHookFailed)
      return failure(ErrorCode::kInvalid, event->file + event->message);
    event->at = machine.clock->now();
    events.push_back(std::move(*event));
  }
  if (!events.empty()) return events;
  return failure(
      ErrorCode::kUnsupported,
      *interpreter + " could not read the program; it printed: " + first_line(said.text));
}

}  // namespace dlprobe
