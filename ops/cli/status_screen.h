#pragma once
// `holdfast status` for people: one screen.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace holdfast::cli {

/// The whole screen, from the daemon's document, with lines of at most `width` columns (0: no
/// bound). Ends with a newline.
std::string status_screen(const nlohmann::json& document, bool colour, std::size_t width);

/// "350 us", "12.3 ms", "4.2 s", "3 min 10 s", "2 d 3 h".
std::string human_duration(double ms);

}  // namespace holdfast::cli
