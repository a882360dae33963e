#!/usr/bin/perl
# Runs a command and tells of it on stdout, one JSON object per line:
#
#   {"type":"output","text":"…"}      one line of its stdout or stderr, without the newline
#   {"type":"result","exit_code":N}   once, last; N is also this program's exit status
#
# It never holds more than two pieces of output: a line longer than a piece becomes several `output` events, small
# enough that no event line reaches 1 MiB however much escaping it needs. Bytes that are no UTF-8, and code points that
# are no characters (U+FFFF), become U+FFFD.
# SIGTERM, SIGINT and SIGHUP go to the command's whole process group; then there is no result line and the status is
# 128 + signal. Needs perl and its core modules, which come with git.
use strict;
use warnings;
use Encode ();
use POSIX qw(:sys_wait_h setpgid);
use Errno qw(EINTR);

use constant PIECE => 65_536;    # bytes per read; a line is cut once this much of it waits
use constant DRAIN => 2;         # seconds for processes that the command left behind with its output open
use constant GRACE => 2;         # seconds between a signal to the group and its SIGKILL

my $ticks_per_second = POSIX::sysconf(POSIX::_SC_CLK_TCK());

# Seconds on a clock that nobody can set.
sub now { return (POSIX::times())[0] / $ticks_per_second }

my %rare = map { chr, sprintf '\\u%04x', $_ } 0 .. 31;

# Lines, without the last one's newline, as event lines. Constant substitutions are several times faster than looked up
# ones, so the characters that logs are full of have their own.
sub events {
    my ($lines) = @_;
    if ( $lines =~ tr/\x80-\xff// ) {
        $lines = Encode::decode( 'UTF-8', $lines );
        utf8::encode($lines);
    }
    $lines =~ s/\\/\\\\/g;
    $lines =~ s/"/\\"/g;
    if ( $lines =~ tr/\x00-\x09\x0b-\x1f// ) {
        $lines =~ s/\t/\\t/g;
        $lines =~ s/\r/\\r/g;
        $lines =~ s/\x1b/\\u001b/g;
        $lines =~ s/([\x00-\x09\x0b-\x1f])/$rare{$1}/g;
    }
    $lines =~ s/\n/"}\n{"type":"output","text":"/g;
    return qq({"type":"output","text":"$lines"}\n);
}

my $caught = 0;    # the signal that ends us

sub say_all {
    my ($bytes) = @_;
    my $done = 0;
    while ( $done < length $bytes ) {
        my $wrote = syswrite STDOUT, $bytes, length($bytes) - $done, $done;
        if ( defined $wrote ) { $done += $wrote; next }
        exit 1 if $! != EINTR;
        return if $caught;
    }
}

my $tail = '';     # a line that has not ended yet
my $was_cut = 0;   # whether its beginning was told already

sub take {
    my ($bytes) = @_;
    my $lines = $tail . $bytes;
    my $end = rindex $lines, "\n";
    if ( $end < 0 ) {
        $tail = $lines;
    }
    else {
        $tail = substr $lines, $end + 1;
        substr( $lines, $end ) = '';
        # A cut exactly before the newline has told the whole line.
        my $told = $was_cut && ( $end == 0 || substr( $lines, 0, 1 ) eq "\n" );
        $was_cut = 0;
        if ( !$told ) { say_all( events($lines) ) }
        elsif ( $end > 0 ) { say_all( events( substr $lines, 1 ) ) }
    }
    return if length $tail < PIECE;
    # Not in the middle of a character.
    my $broken = $tail =~ /([\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\z/ ? length $1 : 0;
    my $cut = length($tail) - $broken;
    say_all( events( substr $tail, 0, $cut ) );
    $tail = substr $tail, $cut;
    $was_cut = 1;
}

my %number = ( HUP => 1, INT => 2, TERM => 15 );
for my $name ( keys %number ) {
    $SIG{$name} = sub { $caught ||= $number{$name}; alarm GRACE + 1 };
}
$SIG{PIPE} = 'IGNORE';
$SIG{CHLD} = sub { };    # so that its end interrupts select

pipe my $from, my $into or die "kew: pipe: $!\n";
my $child = fork // die "kew: fork: $!\n";
if ( $child == 0 ) {
    $SIG{$_} = 'DEFAULT' for qw(HUP INT TERM PIPE CHLD);
    setpgid( 0, 0 );
    open STDIN, '<', '/dev/null' or die "kew: /dev/null: $!\n";
    open STDOUT, '>&', $into or die "kew: stdout: $!\n";
    open STDERR, '>&', $into or die "kew: stderr: $!\n";
    { no warnings 'exec'; exec { $ARGV[0] } @ARGV }
    print STDERR "kew: $ARGV[0]: $!\n";
    POSIX::_exit(127);
}
$SIG{ALRM} = sub {            # nobody reads our stdout, so that a write would hold us for ever
    kill 'KILL', -$child;
    POSIX::_exit( 128 + $caught );
};
setpgid( $child, $child );    # both sides: whoever comes first
close $into;

my $status;                   # of the command, once it ended
my $open = 1;                 # whether somebody still holds the pipe
my $deadline;                 # until when we go on without an end
my $signalled = 0;

while ( $open || !defined $status ) {
    if ( $caught && !$signalled ) {
        $signalled = 1;
        kill $caught, -$child;
        $deadline = now() + GRACE;
    }
    while ( ( my $gone = waitpid -1, WNOHANG ) > 0 ) {
        next if $gone != $child;
        $status = WIFSIGNALED($?) ? 128 + WTERMSIG($?) : WEXITSTATUS($?);
        $deadline //= now() + DRAIN;
    }
    last if defined $deadline && now() >= $deadline;
    if ( !$open ) {
        select undef, undef, undef, 0.05 if !defined $status;
        next;
    }
    my $ready = '';
    vec( $ready, fileno $from, 1 ) = 1;
    next if select( $ready, undef, undef, 0.1 ) <= 0;
    my $got = sysread $from, my $bytes, PIECE;
    if ( !defined $got ) { next if $! == EINTR; last }
    if ( $got == 0 ) { $open = 0; next }
    take($bytes);
}
if ( length $tail ) { say_all( events($tail) ) }

if ($caught) {
    kill 'KILL', -$child;
    exit 128 + $caught;
}
say_all(qq({"type":"result","exit_code":$status}\n));
exit $status;
