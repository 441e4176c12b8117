// The library's description of itself, as JSON.
#pragma once

namespace rnb {

// See rnb_build_info.
const char* build_info();

}  // namespace rnb
