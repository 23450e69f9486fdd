// Ends what target_begin.h began. What follows is reached by every machine and uses no instructions
// of the family.

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC reset_options
#endif
