//! Merge requests of GitLab by push options. Pure: options out, the answer's text in.
//!
//! An option is one line, so the description has kew's own words alone. GitLab makes no second merge request for a branch.

use super::Wanted;

/// The options that make a push open a merge request.
pub fn options(wanted: &Wanted) -> Vec<String> {
    let mut options = vec![
        "merge_request.create".to_owned(),
        format!("merge_request.target={}", wanted.base),
        format!("merge_request.title={}", wanted.title),
        format!("merge_request.description={}", wanted.line),
    ];
    options.extend(wanted.draft.then(|| "merge_request.draft".to_owned()));
    options.extend(wanted.labels.iter().map(|label| format!("merge_request.label={label}")));
    options.extend(wanted.reviewers.iter().map(|user| format!("merge_request.assign={user}")));
    options
}

/// The address that GitLab tells after a push.
pub fn url(stderr: &str) -> Option<String> {
    let words =
        stderr.lines().filter_map(|line| line.strip_prefix("remote:")).flat_map(str::split_whitespace);
    let is_page = |word: &&str| {
        let page = word.strip_prefix("https://").or(word.strip_prefix("http://"));
        page.is_some_and(|page| page.contains("/merge_requests/") && !page.contains("/merge_requests/new"))
    };
    words.into_iter().find(is_page).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_read_from_what_the_remote_says() {
        let said = "remote: \nremote: View merge request for kew/e/n:\nremote:   https://gl.example/g/p/-/merge_requests/7\n";
        assert_eq!(url(said).as_deref(), Some("https://gl.example/g/p/-/merge_requests/7"));
        assert_eq!(url("remote: https://gl.example/g/p/-/merge_requests/new?x=1\n"), None);
        assert_eq!(url("https://gl.example/g/p/-/merge_requests/7\n"), None);
    }
}
