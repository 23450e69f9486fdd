set(libs hf_store PkgConfig::SQLITE)
set(timeout_s 600)
