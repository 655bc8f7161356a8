//! Texture uploads for unmodified users of libvirglrenderer.
