#pragma once

#include "lib/model/recording.h"

namespace dlprobe {

/// Masks what has the published shape of a service's token, as mask_tokens() does, in each text of
/// the record: a file may be named after one. For what is kept, so that a recording holds no more
/// than a report.
void mask_tokens(Record& record);

}  // namespace dlprobe
