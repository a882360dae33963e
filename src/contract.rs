//! The words that kew and every image share: names, paths and the user inside the container.
//!
//! Not what an argv looks like (see `docker`), nor what a brief says (see `runners::brief`). An image is built against
//! these values, so a change here is a change of the contract.

/// Name of the prompt file, relative to the checkout.
pub const PROMPT_FILENAME: &str = ".kew-prompt.txt";

/// Where the prompt file is inside the container.
pub const PROMPT_MOUNT_PATH: &str = "/work/.kew-prompt.txt";

/// Name of a reviewer's verdict file, relative to the checkout.
pub const SIDECAR_FILENAME: &str = ".kew-review-verdict.json";

/// Where a reviewer is told to write its verdict; always absolute, because its working directory may be any.
pub const SIDECAR_MOUNT_PATH: &str = "/work/.kew-review-verdict.json";

/// Where the checkout is mounted; also the working directory.
pub const MOUNT_POINT: &str = "/work";

/// The agent's home folder, a tmpfs that is fresh in every container.
pub const AGENT_HOME: &str = "/home/agent";

/// Numeric user of the agent.
pub const AGENT_UID: u32 = 1001;

/// Numeric group of the agent.
pub const AGENT_GID: u32 = 1001;
