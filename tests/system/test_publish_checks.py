"""Properties that are checked when a message is published."""

from pamqp.commands import Basic

from tests.amqp_client import connect
from tests.servers import RunningServer


def test_what_came_before_a_bad_expiration_is_taken_and_nothing_after_it(
    server: RunningServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        method = Basic.Publish(0, "", "q")
        expirations = ["1000000", "1000000", "2000000", "abc", "1000000"]
        client.send_raw(
            b"".join(
                client.publish_octets(method, b"x", Basic.Properties(expiration=expiration))
                for expiration in expirations
            )
        )

        close = client.expect_channel_close(406)

        assert close.reply_text == "PRECONDITION_FAILED - invalid expiration 'abc': no_integer"
        assert (close.class_id, close.method_id) == (60, 40)
        client.open_channel(2)
        assert client.ready_count("q", 2) == 3


def test_an_expiration_that_came_frame_by_frame_is_checked(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.publish(b"x" * 300_000, "q", properties=Basic.Properties(expiration="-1"))

        close = client.expect_channel_close(406)

        assert (
            close.reply_text == "PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}"
        )


def test_the_login_is_checked_before_the_expiration(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.publish(b"x", "q", properties=Basic.Properties(expiration="5", user_id="guest"))
        client.publish(b"x", "q", properties=Basic.Properties(expiration="?", user_id="other"))

        close = client.expect_channel_close(406)

        assert close.reply_text == (
            "PRECONDITION_FAILED - user_id property set to 'other' "
            "but authenticated user was 'guest'"
        )
        assert (close.class_id, close.method_id) == (60, 40)
