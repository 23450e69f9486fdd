#pragma once
// Where a server's state is when nobody says it.

#include <string>

namespace holdfast {

/// Returns the state directory where --state is not given: $HOLDFAST_STATE; the first directory of
/// $STATE_DIRECTORY, which systemd sets; ./holdfast-state if a database is there; for root
/// /var/lib/holdfast; $XDG_STATE_HOME/holdfast; ~/.local/state/holdfast; and without a home
/// ./holdfast-state.
std::string default_state_dir();

}  // namespace holdfast
