//! The `kew` program: all of it is in the library.

fn main() -> std::process::ExitCode {
    kew::cli::main().into()
}
