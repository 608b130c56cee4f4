#include "lib/model/recording_codec.h"
