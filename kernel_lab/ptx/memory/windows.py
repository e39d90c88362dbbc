"""Where the spaces lie in generic addresses. Global, constant and parameter memory are at their own addresses."""

SHARED_WINDOW = 1 << 40
LOCAL_WINDOW = 1 << 41
WINDOW_BYTES = 1 << 32
