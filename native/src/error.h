// How anything below the C interface reports a failure: an exception that c_api.cpp turns into a status and a
// message.
#pragma once

#include <sstream>
#include <string>
#include <utility>

#include "../include/rnnbridge.h"

namespace rnb {

struct Error {
  rnb_status status;
  std::string message;
};

// The message is what the parts print, one after the other.
template <class... Parts>
[[noreturn]] void fail(rnb_status status, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error{status, text.str()};
}

template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(RNB_INVALID_ARGUMENT, parts...);
}

}  // namespace rnb
