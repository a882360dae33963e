//! The fixed points of the contract between kew and an image. They never vary by runner or setting.

/// The prompt's file name at the root of the checkout.
pub const PROMPT_FILENAME: &str = ".kew-prompt.txt";
/// The prompt as the container sees it.
pub const PROMPT_MOUNT_PATH: &str = "/work/.kew-prompt.txt";
/// The reviewer's verdict at the root of the checkout.
pub const SIDECAR_FILENAME: &str = ".kew-review-verdict.json";
/// The verdict as the container sees it.
pub const SIDECAR_MOUNT_PATH: &str = "/work/.kew-review-verdict.json";
/// The agent's home: an empty tmpfs in every container.
pub const AGENT_HOME: &str = "/home/agent";
/// The agent's user.
pub const AGENT_UID: u32 = 1001;
/// The agent's group.
pub const AGENT_GID: u32 = 1001;
/// Where the checkout is mounted; also the working folder.
pub const MOUNT_POINT: &str = "/work";
