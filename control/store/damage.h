#pragma once
// Errors for rows that are not as they were written, in the words that all repositories use.

#include <string>

#include "control/core/types.h"
#include "shared/base/result.h"

namespace holdfast::store {

/// The error for a row that belongs to a request.
inline Error damaged_of_request(const char* what, core::Seq seq) {
  return Error{Errc::kCorrupt, std::string("read ") + what + " of request row " +
                                   std::to_string(seq) + ": its checksum or size is wrong"};
}

/// The error for rows that decide a start: they must be as they were written.
inline Error damaged_at_start(const std::string& table, const std::string& key) {
  return Error{Errc::kCorrupt, table + ": row " + key +
                                   " is damaged: its checksum differs; see db check, restore a"
                                   " backup"};
}

}  // namespace holdfast::store
