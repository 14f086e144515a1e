# To build for arm64 on another Debian machine (docs/install.md):
#   cmake -S . -B build-arm64 -G Ninja --toolchain scripts/arm64.cmake
# Tests run under qemu-aarch64, where it is installed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
find_program(QEMU_AARCH64 NAMES qemu-aarch64-static qemu-aarch64)
if(QEMU_AARCH64)
	set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU_AARCH64})
endif()
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
